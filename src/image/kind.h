#pragma once
/* What a file or folder that is to be imported is. */
#include "base/err.h"

enum image_kind {
	IMAGE_TAR,     /* a root filesystem */
	IMAGE_PACKED,  /* a tar file packed by gzip, zstd or xz: of what is seen when it is unpacked
			*/
	IMAGE_OCI_DIR, /* a folder with an OCI layout */
	IMAGE_OCI_TAR, /* the same as a tar file */
	IMAGE_DOCKER_ARCHIVE, /* what docker save writes */
};
enum { IMAGE_KIND_ENTRIES = 10000 }; /* that many entries of a tar file are looked at */

/* Look at path. *ret_tool: of IMAGE_PACKED, the program that unpacks it; else "". 0, or -errno with
 * what it is not. */
int must_check image_kind_of(const char *path, enum image_kind *ret, const char **ret_tool,
			     struct err *e);
