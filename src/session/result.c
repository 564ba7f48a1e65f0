#include "base/num.h"
#include "session/session_priv.h"

#include <errno.h>
#include <string.h>

/* Theory of operation. RESULT comes from the agent, which is hostile: only the fields a result has
 * are allowed, each kind of end must bring its number in range, and the text, which will be shown to
 * people, is cut and loses everything that is not printable ASCII (terminal escapes). */

static void copy_text(const struct msg_item *it, char *dst, size_t size)
{
	size_t n = MIN(it->len, size - 1);

	for (size_t i = 0; i < n; i++) {
		uint8_t c = it->data[i];

		dst[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
	}
	dst[n] = '\0';
}

static bool take_field(const struct msg_item *it, struct stream_result *ret)
{
	if (it->field == F_HOW)
		ret->how = (enum result_how)it->u64;
	else if (it->field == F_CODE)
		ret->code = (uint32_t)it->u64;
	else if (it->field == F_ERRNO)
		ret->err = (int)it->u64;
	else if (it->field == F_TEXT)
		copy_text(it, ret->text, sizeof(ret->text));
	else if (it->field == F_UTIME)
		ret->utime_us = it->u64;
	else if (it->field == F_STIME)
		ret->stime_us = it->u64;
	else if (it->field == F_MAXRSS)
		ret->maxrss_kib = it->u64;
	else if (it->field == F_WALL)
		ret->wall_us = it->u64;
	else
		return false;
	return true;
}

int result_decode(const void *p, size_t n, struct stream_result *ret)
{
	struct msg_reader r = msg_reader(p, n);
	struct stream_result res = {.how = HOW_DONE};
	uint64_t seen = 0;
	struct msg_item it;
	int more;

	while ((more = msg_next(&r, &it)) > 0) {
		if (!take_field(&it, &res))
			return -EPROTO;
		seen |= UINT64_C(1) << it.field;
	}
	if (more < 0 || ((seen >> F_HOW) & 1) == 0)
		return -EPROTO;
	if ((res.how == HOW_EXIT && (((seen >> F_CODE) & 1) == 0 || res.code > 255)) ||
	    (res.how == HOW_SIGNAL && (res.code < 1 || res.code > 64)) ||
	    (res.how == HOW_ERROR && res.err == 0))
		return -EPROTO;
	*ret = res;
	return 0;
}
