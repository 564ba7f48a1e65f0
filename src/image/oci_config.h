#pragma once
/*
 * The configuration of an OCI image (image-spec 1.0, config.md): what to run and as whom. The text is hostile: it
 * comes from a registry, or out of the sandbox that unpacked the image.
 */
#include "image/image.h"

#include <stddef.h>

enum {
	OCI_CONFIG_MAX = 4 * 1024 * 1024, /* bytes of text */
	OCI_WORDS_MAX = 1024,             /* variables; words of the command */
	OCI_WORD_MAX = 32 * 1024,         /* bytes of one */
};

struct oci_config {
	char *user, *workdir, *arch; /* owned; NULL = not given */
	struct strv env, cmd;        /* cmd: the entrypoint's words, then the command's */
};

/*
 * Read it. machine: the architecture it must be for, in Go's words ("amd64"); NULL = any. 0, or ERR_INVALID with the
 * field's name, also when it is for another system.
 */
int must_check oci_config_read(const char *text, size_t n, const char *machine, struct oci_config *ret, struct err *e);
void oci_config_done(struct oci_config *c);
/* This machine's architecture in those words; "" when it has none. */
const char *oci_machine(void);
