#pragma once
/* OCI images into the store, by skopeo and umoci in a sandbox. */
#include "cli/cmd_image.h"
#include "cli/image_box.h"
#include "image/kind.h"

#include <stdbool.h>

struct image_oci {
	const char
	    *from; /* as skopeo names it, inside the sandbox; "" = /tmp/in, packed by `tool` */
	const char
	    *repository;    /* `from` without tag and digest, when it is of a registry; else "" */
	const char *tool;   /* gzip, zstd, xz; "" = it is not packed */
	const char *source; /* as a person named it: kept with the image */
	const char *digest; /* 64 digits the manifest must have; NULL = any */
	const char *tls_verify;	  /* "true" or "false" */
	const char *auth_inside;  /* path of the credentials inside; "" = none */
	const char *certs_inside; /* folder with certificates inside; "" = none */
	const struct image_keep *keep;
};

/* Take it in, keep it, say what came in. b: copies, egress, limits and progress are set. 0 or
 * -errno. */
int must_check image_oci_take(struct image_box *b, const struct image_oci *o, struct err *e);
/* True when text begins as "oci:" or "docker-archive:". */
bool image_oci_is_source(const char *text);
/* `brig image import`: "oci:DIR[:TAG]", "docker-archive:FILE", or a path of the given kind (not
 * IMAGE_TAR). */
int must_check image_oci_import(const char *text, enum image_kind kind, const char *tool,
				const struct image_box_limits *lim, const struct image_keep *keep,
				bool show, struct err *e);
