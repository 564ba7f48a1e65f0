#include "client/boxes.h"

#include "client/client.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* A daemon's words: of any content and of any type. What is missing is shown as missing; what names
 * a sandbox must be right. */

static const char *text_or(const json_t *o, const char *key, const char *otherwise)
{
	const char *s = api_text(o, key);

	return s != NULL ? s : otherwise;
}

static json_int_t number(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? n : 0;
}

int box_row_read(const json_t *o, struct box_row *ret)
{
	*ret = (struct box_row){.id = api_text(o, "sandboxID"),
				.template = text_or(o, "templateID", "-"),
				.tier = text_or(o, "tier", "-"),
				.state = text_or(o, "state", "-"),
				.how = api_text(o, "how"),
				.started_ms = client_time(api_text(o, "startedAt")),
				.ends_ms = client_time(api_text(o, "endAt")),
				.ended_ms = client_time(api_text(o, "endedAt")),
				.cpus = number(o, "cpuCount"),
				.memory_mb = number(o, "memoryMB")};
	if (ret->id == NULL || !api_is_id(ret->id))
		return -EPROTO;
	if (strcmp(ret->state, "paused") ==
	    0) /* the API wants a time there, and brigd says the latest it could be */
		ret->ends_ms = -1;
	return 0;
}

int box_use_read(const json_t *o, struct box_use *ret)
{
	double pct = json_number_value(json_object_get(o, "cpuUsedPct"));

	if (!json_is_object(o))
		return -EPROTO;
	*ret = (struct box_use){.cpu_pct = isfinite(pct) && pct > 0 && pct < 1e6 ? pct : 0,
				.cpus = number(o, "cpuCount"),
				.mem_used = (uint64_t)number(o, "memUsed"),
				.mem_total = (uint64_t)number(o, "memTotal"),
				.disk_used = (uint64_t)number(o, "diskUsed"),
				.disk_total = (uint64_t)number(o, "diskTotal")};
	return 0;
}
