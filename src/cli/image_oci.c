#include "cli/image_oci.h"
/*
 * skopeo copies the image into an OCI layout inside, which checks every digest; umoci unpacks that, whiteouts
 * included; GNU tar makes one stream of it for the store, which trusts none of the three. Manifest digest and
 * configuration come as notes, and say only what the image says of itself.
 */
#include "base/cleanup.h"
#include "base/quote.h"
#include "cli/cmd_image.h"
#include "cli/say.h"
#include "image/oci_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* $1 source, $2 --tls-verify, $3 credentials, $4 owners: keep or one */
static const char script[] =
    "exec 3>&1 4>&2 >/tmp/log 2>&1\n"
    "fail() { tail -n 3 /tmp/log >&4; exit 1; }\n"
    "set -- \"$1\" \"$2\" \"$3\" \"$4\"\n"
    "auth=; [ -z \"$3\" ] || auth=\"--src-authfile $3\"\n"
    "skopeo --insecure-policy --tmpdir /tmp copy --src-tls-verify=\"$2\" $auth \"$1\" oci:/tmp/layout:image || fail\n"
    "rm -rf /tmp/in\n"
    "own=; less=; [ \"$4\" = keep ] || { less=--rootless; own='--owner=0 --group=0'; }\n"
    "umoci raw unpack $less --image /tmp/layout:image /tmp/rootfs || fail\n"
    "skopeo inspect --raw oci:/tmp/layout:image >/tmp/manifest || fail\n"
    "skopeo inspect --config --raw oci:/tmp/layout:image >/tmp/config || fail\n"
    "rm -rf /tmp/layout\n"
    "{ sha256sum </tmp/manifest | cut -c1-64; cat /tmp/config; } >&4\n"
    "tar --format=pax --numeric-owner --sort=name $own -C /tmp/rootfs -cf - . >&3 || fail\n";

static int commit(struct image_new *n, const struct image_oci *o, const char *notes, size_t len, struct err *e)
{
	char digest[IMAGE_DIGEST_LEN + 1], from[IMAGE_DIGEST_LEN + 16];
	struct image_meta m = {.source = o->source, .source_digest = from};
	struct oci_config c;
	int r;

	if (len <= IMAGE_DIGEST_LEN || strspn(notes, "0123456789abcdef") != IMAGE_DIGEST_LEN ||
	    notes[IMAGE_DIGEST_LEN] != '\n')
		return err_set(e, ERR_INVALID, EPROTO, "the tools named no manifest digest");
	(void)snprintf(from, sizeof(from), "sha256:%.*s", IMAGE_DIGEST_LEN, notes);
	r = oci_config_read(notes + IMAGE_DIGEST_LEN + 1, len - IMAGE_DIGEST_LEN - 1, oci_machine(), &c, e);
	if (r < 0)
		return r;
	m.user = c.user;
	m.workdir = c.workdir;
	m.arch = c.arch;
	m.env = c.env;
	m.cmd = c.cmd;
	r = image_commit(n, &m, o->name, digest, e);
	oci_config_done(&c);
	if (r == 0 && image_say_taken(n, digest, o->name, o->json) != 0)
		r = err_set(e, ERR_INTERNAL, EIO, "standard output cannot be written");
	return r;
}

int image_oci_take(struct image_box *b, const struct image_oci *o, struct err *e)
{
	_cleanup_free_ char *notes = NULL;
	struct image_new *n = NULL;
	char q[QUOTE_MAX];
	size_t len = 0;
	int r;

	r = image_box_need("skopeo:skopeo umoci:umoci", e);
	if (r < 0)
		return r;
	b->script = script;
	b->args[0] = o->from;
	b->args[1] = o->tls_verify;
	b->args[2] = o->auth_inside;
	b->args[3] = image_box_owners() ? "keep" : "one";
	b->progress = !o->quiet && isatty(STDERR_FILENO) == 1;
	r = image_box_take(b, o->lim, &n, &notes, &len, e);
	if (r == 0)
		r = commit(n, o, notes, len, e);
	image_new_free(n);
	return r < 0 ? err_wrap(e, r, "%s", quote_bare(o->source, q)) : 0;
}

bool image_oci_is_source(const char *text)
{
	return strncmp(text, "oci:", 4) == 0 || strncmp(text, "docker-archive:", 15) == 0;
}

int image_oci_import(const char *text, const char *name, const struct image_box_limits *lim, bool json, bool quiet,
		     struct err *e)
{
	const struct image_limits in = {.bytes = 0};
	struct image_oci o = {.source = text, .lim = &in, .tls_verify = "true", .auth_inside = "", .name = name, .json = json,
			      .quiet = quiet};
	struct image_box b = {.lim = *lim};
	_cleanup_free_ char *dir = strdup(strchr(text, ':') + 1);
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1], from[IMAGE_NAME_MAX + 32], *colon;

	if (dir == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	if (name != NULL && image_parse_name(name, base, tag, e) < 0)
		return -EINVAL;
	(void)snprintf(from, sizeof(from), "docker-archive:/tmp/in");
	if (text[0] == 'o') {
		colon = strrchr(dir, ':');
		if (colon != NULL && strchr(colon, '/') == NULL && access(dir, F_OK) < 0)
			*colon = '\0';
		else
			colon = NULL;
		if (colon != NULL && strlen(colon + 1) > IMAGE_NAME_MAX)
			return err_set(e, ERR_INVALID, EINVAL, "the tag is longer than %d bytes", IMAGE_NAME_MAX);
		(void)snprintf(from, sizeof(from), "oci:/tmp/in%s%s", colon != NULL ? ":" : "",
			       colon != NULL ? colon + 1 : "");
	}
	o.from = from;
	b.copy[0].from = dir;
	b.copy[0].inside = "/tmp/in";
	return image_oci_take(&b, &o, e);
}
