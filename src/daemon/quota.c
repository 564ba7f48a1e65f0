#include "daemon/quota.h"

#include "base/units.h"

#include <errno.h>
#include <string.h>

/* The limit of a sandbox of this template, bytes. One whose template has left the configuration counts as none. */
static uint64_t memory(const struct daemon *d, const struct config_template *t)
{
	return t != NULL ? d->figures[daemon_template_index(d, t)].memory_mb << 20 : 0;
}

int quota_check(const struct daemon *d, const char *tenant, const struct config_template *t, struct err *e)
{
	const struct config_tenant *row = config_tenant(d->config, tenant);
	uint64_t bytes = memory(d, t);
	char most[UNITS_TEXT];
	uint32_t n = 0;

	if (row == NULL)
		return 0;
	if (row->max_memory != 0 && bytes == 0)
		return err_set(e, ERR_LIMITED, EDQUOT, "template '%s' has no memory limit, and tenant '%s' has one (max_memory)", t->name, tenant);
	for (const struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b)) {
		if (b->state == BOX_POOLED || strcmp(b->tenant, tenant) != 0)
			continue;
		n++;
		bytes += memory(d, config_template(d->config, b->template));
	}
	if (row->max_sandboxes != 0 && n >= row->max_sandboxes)
		return err_set(e, ERR_LIMITED, EDQUOT, "tenant '%s' has %u sandboxes alive, as many as it may (max_sandboxes)", tenant, n);
	if (row->max_memory != 0 && bytes > row->max_memory)
		return err_set(e, ERR_LIMITED, EDQUOT, "tenant '%s' would have sandboxes with more memory than the %s it may (max_memory)",
			       tenant, units_size_text(row->max_memory, most));
	return 0;
}
