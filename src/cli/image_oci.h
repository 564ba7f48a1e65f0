#pragma once
/* OCI images into the store, by skopeo and umoci in a sandbox. */
#include "cli/image_box.h"

#include <stdbool.h>

struct image_oci {
	const char *from;          /* as skopeo names it, inside the sandbox */
	const char *source;        /* as a person named it: kept with the image */
	const char *tls_verify;    /* "true" or "false" */
	const char *auth_inside;   /* path of the credentials inside; "" = none */
	const char *name;          /* "name[:tag]"; NULL = none */
	const struct image_limits *lim;
	bool json, quiet;
};

/* Take it in, commit it, say what came in. b: copies, egress and limits are set. 0 or -errno. */
int must_check image_oci_take(struct image_box *b, const struct image_oci *o, struct err *e);
/* True when text begins as "oci:" or "docker-archive:". */
bool image_oci_is_source(const char *text);
/* `brig image import oci:DIR[:TAG]`, `docker-archive:FILE`. */
int must_check image_oci_import(const char *text, const char *name, const struct image_box_limits *lim, bool json,
				bool quiet, struct err *e);
