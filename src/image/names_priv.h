#pragma once
/* The names of the store, for those who walk over them. */
#include "image/image.h"

enum { NAMES_FILE_MAX = 2 * IMAGE_NAME_MAX + 16 }; /* bytes of "refs/NAME/TAG" */

/* fn for every readable file refs/NAME/TAG (file: below the store; name: "name:tag"); false stops. Names are read
 * without the store's lock: who changes something by them holds it. */
typedef bool (*names_fn)(void *arg, const char *file, const char *name, const char *digest);
void names_each(int store_fd, names_fn fn, void *arg);
/* What a reference stands for; *ret_file: its file below the store when it is a name, else "". */
int must_check names_digest(int store_fd, const char *ref, char digest[IMAGE_DIGEST_LEN + 1],
			    char ret_file[NAMES_FILE_MAX], struct err *e);
