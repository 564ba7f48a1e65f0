#pragma once
/*
 * Tools that read foreign images, each in a sandbox of its own.
 *
 * A shell script runs in a container sandbox on the image `host`, whose /usr has the tools. Files go in by
 * copying. What it makes leaves it as one stream on standard output, which the caller reads from `out_fd`
 * while the tools run, and as notes: what it wrote to standard error. Both are hostile.
 */
#include "base/err.h"
#include "core/spec.h"
#include "image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { IMAGE_BOX_NOTES_MAX = 4 * 1024 * 1024, IMAGE_BOX_COPIES = 3, IMAGE_BOX_ARGS = 12 };

struct image_box_limits {
	uint64_t memory, disk; /* bytes; 0 = three quarters and half of the machine's memory */
	uint64_t timeout_ms;   /* 0 = one hour */
	struct image_limits image; /* of what comes out */
};

struct image_box {
	/* set by the caller; borrowed */
	const char *script;               /* of sh; its arguments are "$1" and on */
	const char *args[IMAGE_BOX_ARGS]; /* NULL-terminated */
	struct {
		const char *from, *inside; /* a host file or folder, and its path inside */
	} copy[IMAGE_BOX_COPIES];          /* ended by from == NULL */
	const char *see;                  /* a host folder to be read at /mnt; NULL = none */
	const struct strv *hosts;         /* more lines of /etc/hosts; NULL = none */
	bool egress_local;                /* they hold a `local` rule */
	const char *egress;               /* rules of what may be reached (gate/judge.h); NULL = nothing */
	struct image_box_limits lim;
	bool progress;                    /* a person looks */
	const char *doing;                /* shown with its seconds until the stream begins; NULL = nothing */
	bool plain_user;                  /* as the sandbox's ordinary user, on a read-only root, also as root */
	bool as_root;                     /* as uid 0 inside, with the capabilities over files, also as an ordinary user */

	/* made by image_box_start */
	int out_fd;
	pid_t pid;
	int notes_fd;
};

/* Readers of --memory, --disk, --timeout, --max-size and --max-entries: 1, or an error that names the option. 0 = it is
 * another option. */
int must_check image_box_limit(struct image_box_limits *l, const char *option, const char *value, struct err *e);
/* ERR_NOT_FOUND with the Debian package's name unless all of "PROGRAM:PACKAGE ..." are there. */
int must_check image_box_need(const char *tools, struct err *e);
/* True when files keep their owners inside: the caller is the host's root. */
bool image_box_owners(void);
/* Start it. On failure there is nothing to end. */
int must_check image_box_start(struct image_box *b, struct err *e);
/*
 * Close out_fd, wait for the end, and return the notes with a zero byte behind them (owned; *n without it). When the
 * script failed: its last words as ERR_INVALID; for a limit, which one.
 */
int must_check image_box_end(struct image_box *b, char **notes, size_t *n, struct err *e);
/*
 * All of it for a script that makes an image: start, take its tar stream in (image/image.h), wait for its end. Of two
 * errors the one that came first: what ended the tools also cuts the stream short. *notes as of image_box_end.
 */
int must_check image_box_take(struct image_box *b, struct image_new **ret, char **notes, size_t *n, struct err *e);
/*
 * The EROFS file of an image: the one that is there, else (or `again`) made now by mkfs.erofs in the box b, whose limits and
 * progress are set.
 */
int must_check image_erofs_need(const struct image_found *f, struct image_box *b, bool again, struct image_erofs *ret,
				struct err *e);
