#include "cli/image_oci.h"
/*
 * skopeo copies the image into an OCI layout inside, which checks its digests; umoci unpacks that,
 * whiteouts included; GNU tar makes one stream of it for the store, which trusts none of the three.
 * Manifest digest and configuration come as notes, and say only what the image says of itself.
 *
 * Of a registry the manifest is fetched first and the image then by its digest, so a tag that moves
 * meanwhile changes nothing; where the caller named a digest, the manifest has that one or nothing
 * is kept. Credentials lie in the sandbox's memory until the image was fetched, and nowhere else.
 */
#include "base/cleanup.h"
#include "base/quote.h"
#include "image/oci_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* $1 source, $2 repository, $3 --tls-verify, $4 credentials, $5 certificates, $6 owners: keep or
 * one, $7 unpacker. A packed tar file that is no image of these kinds goes out as it is; the word
 * "tar" says so. */
static const char script[] =
    "exec 3>&1 4>&2 >/tmp/log 2>&1\n"
    /* a Go program that breaks says why on the line before its stacks */
    "fail() { why=$(grep -m 1 '^panic: ' /tmp/log) && echo \"the tool broke: ${why#panic: }\" >&4 "
    "|| tail -n 3 /tmp/log >&4; exit 1; }\n"
    "from=$1\n"
    "if [ -n \"$7\" ]; then\n"
    "  what=$(\"$7\" -dc </tmp/in 2>/dev/null | tar -tf - 2>/dev/null | head -n 10000 | sed "
    "'s,^\\./,,' | "
    "grep -xE 'oci-layout|manifest.json' | sort -r | head -n 1)\n"
    "  [ -n \"$what\" ] || { echo tar >&4; exec \"$7\" -dc </tmp/in >&3 2>&4; }\n"
    "  \"$7\" -dc </tmp/in >/tmp/in.tar || fail\n"
    "  from=docker-archive:/tmp/in.tar\n"
    "  [ \"$what\" != oci-layout ] || from=oci-archive:/tmp/in.tar\n"
    "fi\n"
    "dir=\n"
    "case $from in\n"
    "oci:*) dir=/tmp/in ;;\n"
    "oci-archive:*)\n"
    "  dir=/tmp/dir; mkdir $dir && tar -C $dir -xf \"${from#*:}\" || fail\n"
    "  rm -f \"${from#*:}\"; from=oci:$dir ;;\n"
    "esac\n"
    /* skopeo compares configurations and layers with their digests, but of a layout no manifest and
       no list of them */
    "if [ -n \"$dir\" ]; then\n"
    "  [ -z \"$(find $dir -type l | head -n 1)\" ] || { echo 'a symbolic link in the OCI layout' "
    ">&4; exit 1; }\n"
    "  (cd $dir/blobs/sha256 && find . -type f -size -8193k -printf '%f  %f\\n' | sha256sum -c "
    "--quiet) 2>/dev/null || "
    "{ echo 'a blob of the OCI layout does not match its digest' >&4; exit 1; }\n"
    "fi\n"
    "auth=; [ -z \"$4\" ] || auth=\"--authfile $4\"\n"
    "certs=; [ -z \"$5\" ] || certs=\"--cert-dir $5\"\n"
    "skopeo inspect --raw --tls-verify=\"$3\" $auth $certs \"$from\" 2>/tmp/log >/tmp/manifest || "
    "fail\n"
    "digest=$(sha256sum </tmp/manifest | cut -c1-64)\n"
    "[ -z \"$2\" ] || from=$2@sha256:$digest\n"
    "[ -z \"$5\" ] || certs=\"--src-cert-dir $5\"\n"
    "skopeo --insecure-policy --tmpdir /tmp copy --src-tls-verify=\"$3\" $auth $certs \"$from\" "
    "oci:/tmp/layout:image || fail\n"
    "rm -rf /tmp/in /tmp/in.tar /tmp/dir; [ -z \"$4\" ] || rm -f \"$4\"\n"
    "own=; less=; [ \"$6\" = keep ] || { less=--rootless; own='--owner=0 --group=0'; }\n"
    "umoci raw unpack $less --image /tmp/layout:image /tmp/rootfs || fail\n"
    "skopeo inspect --config --raw oci:/tmp/layout:image 2>/tmp/log >/tmp/config || fail\n"
    "rm -rf /tmp/layout\n"
    "{ echo $digest; cat /tmp/config; } >&4\n"
    "tar --format=pax --numeric-owner --sort=name $own -C /tmp/rootfs -cf - . >&3 || fail\n";

static int keep(struct image_new *n, const struct image_oci *o, const char *notes, size_t len,
		struct err *e)
{
	char from[IMAGE_DIGEST_LEN + 16];
	struct image_meta m = {.source = o->source, .source_digest = from};
	struct oci_config c;
	int r;

	if (o->tool[0] != '\0' && strncmp(notes, "tar\n", 4) == 0) {
		m.source_digest = NULL;
		return image_keep(n, &m, o->keep, e);
	}
	if (len <= IMAGE_DIGEST_LEN || strspn(notes, "0123456789abcdef") != IMAGE_DIGEST_LEN ||
	    notes[IMAGE_DIGEST_LEN] != '\n')
		return err_set(e, ERR_INVALID, EPROTO, "the tools named no manifest digest");
	/* skopeo compares a manifest with the digest it is named by only where it is the one to
	 * copy */
	if (o->digest != NULL && strncmp(notes, o->digest, IMAGE_DIGEST_LEN) != 0)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the registry gave another manifest, of digest sha256:%.12s...",
			       notes);
	(void)snprintf(from, sizeof(from), "sha256:%.*s", IMAGE_DIGEST_LEN, notes);
	r = oci_config_read(notes + IMAGE_DIGEST_LEN + 1, len - IMAGE_DIGEST_LEN - 1, oci_machine(),
			    &c, e);
	if (r < 0)
		return r;
	m.user = c.user;
	m.workdir = c.workdir;
	m.arch = c.arch;
	m.env = c.env;
	m.cmd = c.cmd;
	r = image_keep(n, &m, o->keep, e);
	oci_config_done(&c);
	return r;
}

int image_oci_take(struct image_box *b, const struct image_oci *o, struct err *e)
{
	_cleanup_free_ char *notes = NULL;
	struct image_new *n = NULL;
	char q[QUOTE_MAX];
	size_t len = 0;
	int r = image_box_need("skopeo:skopeo umoci:umoci", e);

	if (r < 0)
		return r;
	b->script = script;
	b->args[0] = o->from;
	b->args[1] = o->repository;
	b->args[2] = o->tls_verify;
	b->args[3] = o->auth_inside;
	b->args[4] = o->certs_inside;
	b->args[5] = image_box_owners() ? "keep" : "one";
	b->args[6] = o->tool;
	r = image_box_take(b, &n, &notes, &len, e);
	if (r == 0)
		r = keep(n, o, notes, len, e);
	image_new_free(n);
	return r < 0 ? err_wrap(e, r, "%s", quote_bare(o->source, q)) : 0;
}

bool image_oci_is_source(const char *text)
{
	return strncmp(text, "oci:", 4) == 0 || strncmp(text, "docker-archive:", 15) == 0;
}

/* DIR[:TAG]: where no such folder is, what follows the last colon is the tag. */
static int split_tag(char *dir, char from[IMAGE_NAME_MAX + 32], struct err *e)
{
	char *colon = access(dir, F_OK) < 0 ? strrchr(dir, ':') : NULL;

	if (colon != NULL && strchr(colon, '/') != NULL)
		colon = NULL;
	if (colon != NULL)
		*colon++ = '\0';
	if (colon != NULL && strlen(colon) > IMAGE_NAME_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "the tag is longer than %d bytes",
			       IMAGE_NAME_MAX);
	(void)snprintf(from, IMAGE_NAME_MAX + 32, "oci:/tmp/in%s%s", colon != NULL ? ":" : "",
		       colon != NULL ? colon : "");
	return 0;
}

int image_oci_import(const char *text, enum image_kind kind, const char *tool,
		     const struct image_box_limits *lim, const struct image_keep *k, bool show,
		     struct err *e)
{
	bool word = image_oci_is_source(text);
	char from[IMAGE_NAME_MAX + 32] = "", source[512], need[32];
	struct image_oci o = {.from = from,
			      .repository = "",
			      .tool = tool,
			      .source = source,
			      .tls_verify = "true",
			      .auth_inside = "",
			      .certs_inside = "",
			      .keep = k};
	struct image_box b = {.lim = *lim, .progress = show};
	_cleanup_free_ char *path = strdup(word ? strchr(text, ':') + 1 : text);
	int r = 0;

	if (path == NULL)
		return err_no_memory(e);
	if (word)
		kind = text[0] == 'o' ? IMAGE_OCI_DIR : IMAGE_DOCKER_ARCHIVE;
	(void)snprintf(source, sizeof(source), "%s%.500s",
		       word		       ? ""
		       : kind == IMAGE_OCI_DIR ? "oci:"
		       : kind == IMAGE_OCI_TAR ? "oci-archive:"
		       : kind == IMAGE_PACKED  ? "packed:"
					       : "docker-archive:",
		       text);
	if (kind == IMAGE_OCI_DIR)
		r = split_tag(path, from, e);
	else if (kind != IMAGE_PACKED)
		(void)snprintf(from, sizeof(from), "%s:/tmp/in",
			       kind == IMAGE_OCI_TAR ? "oci-archive" : "docker-archive");
	if (r == 0 && tool[0] != '\0') {
		(void)snprintf(need, sizeof(need), "%s:%s", tool,
			       strcmp(tool, "xz") == 0 ? "xz-utils" : tool);
		r = image_box_need(need, e);
	}
	if (r < 0)
		return r;
	b.copy[0].from = path;
	b.copy[0].inside = "/tmp/in";
	return image_oci_take(&b, &o, e);
}
