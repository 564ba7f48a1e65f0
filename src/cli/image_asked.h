#pragma once
/*
 * What is asked of the sub-commands of `brig image` whose tools run in a sandbox: options they
 * share, and one operand.
 */
#include "cli/cmd_image.h"
#include "cli/image_box.h"
#include "cmd/opt.h"

struct image_asked {
	const char *what; /* the operand */
	bool show;	  /* progress: a person looks at standard error, and no --quiet */
	struct image_box_limits lim; /* of the tools */
	struct image_keep keep;	     /* --name, --json, --erofs */
	struct image_box erofs;	     /* keep.erofs with --erofs: the same limits */
};

/* An option of one sub-command: 1, 0 = it is none of them, or an error. */
typedef int (*image_asked_own)(void *arg, const struct opt *o, const char *value, struct err *e);

/*
 * Read argv. own may be NULL; needed says which operand is missing ("one FILE is needed"). Values
 * are argv's own. *a must stay where it is, its box being named by keep. 0, or an error of usage.
 */
int must_check image_asked(struct image_asked *a, const struct command_impl *c, char *const *argv,
			   image_asked_own own, void *arg, const char *needed, struct err *e);
