#include "wire/sudo.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

/* Fed by any process of a sandbox, which is hostile. msg_next has checked every length. */

void sudo_header(uint8_t dst[SUDO_HDR], uint32_t len)
{
	store_le32(dst, SUDO_MAGIC);
	store_le16(dst + 4, SUDO_VERSION);
	store_le16(dst + 6, 0);
	store_le32(dst + 8, len);
}

int sudo_header_decode(const uint8_t src[SUDO_HDR])
{
	uint32_t len = load_le32(src + 8);

	if (load_le32(src) != SUDO_MAGIC || load_le16(src + 4) != SUDO_VERSION || load_le16(src + 6) != 0 ||
	    len > SUDO_REQUEST_MAX)
		return -EPROTO;
	return (int)len;
}

static bool starts_with(const struct msg_item *it, const char *text)
{
	size_t n = strlen(text);

	return it->len >= n && memcmp(it->data, text, n) == 0;
}

static bool env_ok(const struct msg_item *it)
{
	const uint8_t *eq = memchr(it->data, '=', it->len);

	return eq != NULL && eq != it->data && !starts_with(it, "SUDO_UID=") && !starts_with(it, "SUDO_GID=") &&
	       !starts_with(it, "SUDO_USER=");
}

int sudo_request_check(const void *msg, size_t n)
{
	struct msg_reader r = msg_reader(msg, n);
	uint32_t argc = 0, envc = 0;
	bool exec = false, user = false;
	struct msg_item it;
	int got;

	while ((got = msg_next(&r, &it)) > 0) {
		switch ((int)it.field) {
		case F_KIND: exec = it.u64 == REQ_EXEC; break;
		case F_USER: user = it.len > 0; break;
		case F_UMASK: break;
		case F_ARG: argc++; break;
		case F_ENV:
			if (!env_ok(&it))
				return -EPROTO;
			envc++;
			break;
		default: return -EPROTO;
		}
	}
	return got == 0 && exec && user && argc <= MSG_ARGS_MAX && envc <= MSG_ARGS_MAX ? 0 : -EPROTO;
}

int sudo_reply_decode(const void *msg, size_t n, struct sudo_reply *ret)
{
	struct msg_reader r = msg_reader(msg, n);
	struct sudo_reply got = {.how = HOW_DONE};
	struct msg_item it;
	int more;

	while ((more = msg_next(&r, &it)) > 0) {
		switch ((int)it.field) {
		case F_HOW: got.how = (enum result_how)it.u64; break;
		case F_CODE: got.code = (uint32_t)it.u64; break;
		case F_ERRNO: got.err = (int)it.u64; break;
		case F_TEXT:
			if (msg_copy(&it, got.text, sizeof(got.text)) < 0)
				return -EPROTO;
			break;
		default: break;
		}
	}
	if (more < 0 || got.how == HOW_DONE || (got.how == HOW_EXIT && got.code > 255) ||
	    (got.how == HOW_SIGNAL && (got.code < 1 || got.code > 64)))
		return -EPROTO;
	*ret = got;
	return 0;
}
