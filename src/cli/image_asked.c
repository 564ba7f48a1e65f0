/* Options that sub-commands of `brig image` share, by their names: which of them a command has, its
 * table says. */
#include "cli/image_asked.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int shared(struct image_asked *a, const char *name, const char *value, struct err *e)
{
	if (strcmp(name, "json") == 0)
		a->keep.json = true;
	else if (strcmp(name, "quiet") == 0)
		a->show = false;
	else if (strcmp(name, "name") == 0)
		a->keep.name = value;
	else if (strcmp(name, "erofs") == 0)
		a->keep.erofs = &a->erofs;
	else
		return image_box_limit(&a->lim, name, value, e);
	return 0;
}

int image_asked(struct image_asked *a, const struct command_impl *c, char *const *argv,
		image_asked_own own, void *arg, const char *needed, struct err *e)
{
	struct opt_parser p = opt_parser(c->opts, c->nopts, argv);
	const struct opt *o = NULL;
	const char *value = NULL;
	int r;

	*a = (struct image_asked){.show = isatty(STDERR_FILENO) == 1};
	while ((r = opt_next(&p, &o, &value, e)) > 0) {
		int taken = own == NULL ? 0 : own(arg, o, value, e);

		r = taken == 0 ? shared(a, o->name, value, e) : taken;
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (argv[p.at] == NULL || argv[p.at + 1] != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "%s", needed);
	a->what = argv[p.at];
	a->erofs.lim = a->lim;
	a->erofs.progress = a->show;
	return 0;
}
