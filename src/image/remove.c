#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "image/names_priv.h"
#include "image/store_priv.h"
#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Listing and removing. An image is removed in two steps: under the store's lock it loses its names
 * and is moved to tmp/ by one rename; its files go after that, while others may use the store. Its
 * folder's own lock is held alone from the first look to the last file, so nothing runs on it, and
 * a sweep leaves it to us; when we die, it is what nobody holds in tmp/, or an image without a
 * name: the next gc takes both.
 */

struct lister {
	image_each fn;
	void *arg;
	const char *digest; /* has_name: the one looked for */
	bool found, stopped;
};

static bool list_named(void *arg, const char *file, const char *name, const char *digest)
{
	struct lister *l = arg;

	(void)file;
	l->stopped = !l->fn(l->arg, digest, name);
	return !l->stopped;
}

static bool is_named(void *arg, const char *file, const char *name, const char *digest)
{
	struct lister *l = arg;

	(void)file;
	(void)name;
	l->found = strcmp(l->digest, digest) == 0;
	return !l->found;
}

static bool has_name(int store, const char *digest)
{
	struct lister l = {.digest = digest};

	names_each(store, is_named, &l);
	return l.found;
}

typedef int (*image_fn)(void *arg, int store, const char *digest);

/* fn for every image without a name; it returns < 0 to stop. */
static int each_nameless(int store, image_fn fn, void *arg)
{
	int fd = openat(store, "sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	while (d != NULL && r >= 0 && (ent = readdir(d)) != NULL)
		if (strlen(ent->d_name) == IMAGE_DIGEST_LEN &&
		    store_digest_ok(ent->d_name, IMAGE_DIGEST_LEN) && !has_name(store, ent->d_name))
			r = fn(arg, store, ent->d_name);
	if (d != NULL)
		(void)closedir(d);
	return r;
}

static int list_nameless(void *arg, int store, const char *digest)
{
	struct lister *l = arg;

	(void)store;
	return l->fn(l->arg, digest, NULL) ? 0 : -1;
}

int image_list(image_each fn, void *arg, struct err *e)
{
	_cleanup_close_ int store = store_open(e);
	struct lister l = {.fn = fn, .arg = arg};

	if (store < 0)
		return store;
	names_each(store, list_named, &l);
	if (!l.stopped)
		(void)each_nameless(store, list_nameless, &l);
	return 0;
}

/* ---- one image ---- */

/* Its folder, held alone. -EBUSY while something runs on it; *holder is then who, 0 = cannot be
 * seen. */
static int hold_alone(int store, const char *digest, pid_t *holder)
{
	char at[IMAGE_DIGEST_LEN + 16];
	_cleanup_close_ int fd = -1;

	*holder = 0;
	(void)snprintf(at, sizeof(at), "sha256/%s", digest);
	fd = openat(store, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		*holder = store_holder(fd);
		return -EBUSY;
	}
	return steal_fd(&fd);
}

/* With the store's lock and the image's own held: out of sight. name: where it went. */
static int put_away(int store, const char *digest, char name[STORE_TMP_NAME])
{
	char at[IMAGE_DIGEST_LEN + 16];
	int r = store_tmp_name(name);

	(void)snprintf(at, sizeof(at), "sha256/%s", digest);
	return r < 0 ? r : renameat(store, at, store, name) < 0 ? -errno : 0;
}

struct untag {
	int store;
	const char *digest, *file; /* file "": every name of the digest */
	uint32_t names;		   /* of the digest, when only counting */
	bool count;
};

static bool untag(void *arg, const char *file, const char *name, const char *digest)
{
	struct untag *u = arg;
	char dir[NAMES_FILE_MAX], *slash;

	(void)name;
	if (strcmp(u->digest, digest) != 0)
		return true;
	u->names++;
	if (u->count || (u->file[0] != '\0' && strcmp(u->file, file) != 0))
		return true;
	(void)unlinkat(u->store, file, 0);
	(void)snprintf(dir, sizeof(dir), "%s", file);
	if ((slash = strrchr(dir, '/')) != NULL) {
		*slash = '\0';
		(void)unlinkat(u->store, dir, AT_REMOVEDIR); /* the last tag of the name */
	}
	return true;
}

static int busy(const char *ref, int r, pid_t holder, struct err *e)
{
	char q[QUOTE_MAX], who[48] = "";

	if (r != -EBUSY)
		return err_set(e, ERR_INTERNAL, -r, "image %s: removing it: %s", quote(ref, q),
			       strerror(-r));
	if (holder > 0)
		(void)snprintf(who, sizeof(who), " (process %d)", (int)holder);
	return err_set(e, ERR_CONFLICT, EBUSY, "image %s: a sandbox runs on it%s", quote(ref, q),
		       who);
}

int image_remove(const char *ref, struct err *e)
{
	_cleanup_close_ int store = store_open(e), lock = -1, held = -1;
	char digest[IMAGE_DIGEST_LEN + 1], file[NAMES_FILE_MAX], name[STORE_TMP_NAME], q[QUOTE_MAX];
	struct untag u = {.store = store, .digest = digest, .file = file, .count = true};
	bool last;
	pid_t holder;
	int r;

	if (store < 0)
		return store;
	if ((lock = store_lock(store, e)) < 0)
		return lock;
	r = names_digest(store, ref, digest, file, e);
	if (r < 0)
		return r;
	names_each(store, untag, &u);
	/* a second name keeps an image; something that runs on it keeps the last name too */
	last = file[0] == '\0' || u.names <= 1;
	if (last) {
		held = hold_alone(store, digest, &holder);
		if (held < 0 && held != -ENOENT)
			return busy(ref, held, holder, e);
	}
	u.count = false;
	names_each(store, untag, &u);
	r = held >= 0 ? put_away(store, digest, name) : 0;
	(void)close(steal_fd(&lock));
	if (r == 0 && held >= 0)
		r = tree_remove(store, name);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "image %s: removing it: %s", quote(ref, q),
			       strerror(-r))
		     : 0;
}

/* ---- all that nobody needs ---- */

enum { GC_STEP = 64 }; /* images moved away before their files are removed */

struct gc {
	size_t n;
	struct {
		int fd;
		char name[STORE_TMP_NAME];
	} gone[GC_STEP];
};

static int gc_one(void *arg, int store, const char *digest)
{
	struct gc *g = arg;
	pid_t holder;
	_cleanup_close_ int fd = g->n == GC_STEP ? -ECANCELED : hold_alone(store, digest, &holder);
	int r = fd < 0 ? fd : put_away(store, digest, g->gone[g->n].name);

	if (r == -EBUSY)
		return 0;
	if (r == 0)
		g->gone[g->n++].fd = steal_fd(&fd);
	return r;
}

int image_gc(struct err *e)
{
	_cleanup_close_ int store = store_open(e);
	struct gc g = {.n = GC_STEP};
	int total = 0, r = 0;

	if (store < 0)
		return store;
	store_sweep(store);
	while (r == 0 && g.n == GC_STEP) {
		int lock = store_lock(store, e), err;

		if (lock < 0)
			return lock;
		g.n = 0;
		r = each_nameless(store, gc_one, &g);
		r = r == -ECANCELED ? 0 : r;
		(void)close(lock);
		for (size_t i = 0; i < g.n; i++) {
			err = tree_remove(store, g.gone[i].name);
			r = r < 0 ? r : err;
			(void)close(g.gone[i].fd);
		}
		total += (int)g.n;
	}
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "image store: removing an image: %s",
			       strerror(-r))
		     : total;
}
