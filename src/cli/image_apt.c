#include "cli/image_apt.h"
/*
 * apt runs on the host as the caller, with state and configuration of its own: nothing counts as installed, no
 * hook, source, key or preference of the host's apt is read but its proxies. It installs nothing, it only
 * downloads. A mirror can lie only as far as the signatures of the keyring allow; what comes from the cache is
 * hashed again. Each set of sources has a state folder, whose lock a build holds while it downloads.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/image_apt_priv.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEBIAN_KEYRING "/usr/share/keyrings/debian-archive-keyring.gpg"

/* What dpkg and the maintainer scripts of a Debian count on without saying so, by name: with nothing installed apt
 * would choose usrmerge, whose script wants a real chroot. */
static const char *const needed[] = {"base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils",
				     "dpkg", "findutils", "grep", "gzip", "hostname", "init-system-helpers", "libc-bin",
				     "mawk", "ncurses-base", "perl-base", "sed", "tar", "usr-is-merged"};

static int no_memory(struct err *e) { return err_no_memory(e); }

static int put(struct strv *v, struct err *e, const char *before, const char *text, const char *after)
{
	_cleanup_free_ char *s = NULL;

	if (asprintf(&s, "%s%s%s", before, text, after) < 0 || strv_add(v, s) < 0)
		return no_memory(e);
	return 0;
}

static int write_text(const char *dir, const char *file, const char *text, struct err *e)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (asprintf(&path, "%s/%s", dir, file) < 0)
		return no_memory(e);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	r = fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
	return r < 0 ? err_set(e, ERR_DENIED, -r, "%s: %s", path, strerror(-r)) : 0;
}

/* One line of sources: an entry of `mirrors`, or a URL with a suite of its own. */
static void source(FILE *f, const struct recipe *r, const char *url, size_t n, const char *suite, const char *components)
{
	(void)fprintf(f, "deb [signed-by=%s%s] %.*s %s %s\n", r->keyring != NULL ? r->keyring : DEBIAN_KEYRING,
		      r->snapshot != NULL ? " check-valid-until=no" : "", (int)n, url, suite, components);
}

/* Debian's own archive: a release has updates and security fixes beside it, what is on its way to one has not. */
static void debian_sources(FILE *f, const struct recipe *r)
{
	static const char *const alone[] = {"sid", "unstable", "experimental"};
	char url[128], suite[96];
	bool release = true;

	for (size_t i = 0; i < ARRAY_LEN(alone); i++)
		release = release && strcmp(r->suite, alone[i]) != 0;
	for (int i = 0; i < (release ? 3 : 1); i++) {
		const char *archive = i == 2 ? "debian-security" : "debian";

		if (r->snapshot != NULL)
			(void)snprintf(url, sizeof(url), "http://snapshot.debian.org/archive/%s/%s", archive, r->snapshot);
		else
			(void)snprintf(url, sizeof(url), "http://deb.debian.org/%s", archive);
		(void)snprintf(suite, sizeof(suite), "%s%s", r->suite, i == 0 ? "" : i == 1 ? "-updates" : "-security");
		source(f, r, url, strlen(url), suite, "main");
	}
}

static int sources(const struct recipe *r, char **ret, struct err *e)
{
	size_t len = 0;
	FILE *f = open_memstream(ret, &len);

	if (f == NULL)
		return no_memory(e);
	for (uint32_t i = 0; i < r->mirrors.n; i++) {
		const char *url = r->mirrors.v[i], *suite = strchr(url, ' ');
		size_t n = suite != NULL ? (size_t)(suite - url) : strlen(url);

		if (suite == NULL)
			source(f, r, url, n, r->suite, "main");
		else
			source(f, r, url, n, suite + 1, strchr(suite + 1, ' ') != NULL ? "" : "main");
	}
	if (r->mirrors.n == 0)
		debian_sources(f, r);
	return fclose(f) == 0 ? 0 : no_memory(e);
}

/* In a version that any dependency takes but one with an upper bound. */
int image_apt_provides(const struct recipe *r, char **ret, struct err *e)
{
	size_t len = 0;
	FILE *f = open_memstream(ret, &len);

	if (f == NULL)
		return no_memory(e);
	for (uint32_t i = 0; i < r->without.n; i++)
		(void)fprintf(f, "%s%s (= 99:0)", i == 0 ? "" : ", ", r->without.v[i]);
	return fclose(f) == 0 ? 0 : no_memory(e);
}

/* dpkg's view of the packages that stay out: one that is there and provides them all. */
static int write_status(const struct recipe *r, const char *dir, struct err *e)
{
	_cleanup_free_ char *list = NULL, *text = NULL;
	int ret = image_apt_provides(r, &list, e);

	if (ret < 0)
		return ret;
	if (asprintf(&text, "Package: brig-without\nStatus: install ok installed\nVersion: 1\nArchitecture: all\n"
		     "Maintainer: brig\nDescription: left out\nProvides: %s\n\n", list) < 0)
		return no_memory(e);
	return write_text(dir, "status", r->without.n > 0 ? text : "", e);
}

/* What of the host's apt says how the network is reached. */
static int write_config(const char *dir, struct err *e)
{
	static const char *const kept[] = {"Acquire::http", "Acquire::ftp", "Acquire::Retries", "Acquire::ForceIPv"};
	_cleanup_free_ char *dump = NULL, *text = NULL;
	struct apt_run run = {.program = "/usr/bin/apt-config", .quiet = true};
	char *line, *save = NULL;
	size_t len = 0;
	FILE *f;
	int r = put(&run.args, e, "", "apt-config", "");

	if (r == 0)
		r = put(&run.args, e, "", "dump", "");
	if (r == 0)
		r = apt_run(&run, &dump, e);
	strv_done(&run.args);
	if (r < 0)
		return r;
	f = open_memstream(&text, &len);
	if (f == NULL)
		return no_memory(e);
	(void)fputs("Dir::Etc::parts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\n", f);
	for (line = strtok_r(dump, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		for (size_t i = 0; i < ARRAY_LEN(kept); i++)
			if (strncmp(line, kept[i], strlen(kept[i])) == 0)
				(void)fprintf(f, "%s\n", line);
	return fclose(f) == 0 ? write_text(dir, "apt.conf", text, e) : no_memory(e);
}

/* apt-get with the folders of this build. */
static int command(const struct apt_folders *d, const char *verb, struct strv *v, struct err *e)
{
	static const char *const words[] = {
	    "apt-get", "-q", "-y", "-oAPT::Sandbox::User=", "-oAPT::Install-Recommends=false", "-oDpkg::Use-Pty=0",
	    "-oDir::Cache::pkgcache=", "-oDir::Cache::srcpkgcache=", "-oDir::Etc::sourceparts=/dev/null",
	    "-oDir::Etc::preferences=/dev/null", "-oDir::Etc::preferencesparts=/dev/null", "-oDir::Etc::trusted=/dev/null",
	    "-oDir::Etc::trustedparts=/dev/null", "-oAPT::Update::Error-Mode=any", "-oAcquire::ForceHash=SHA256",
	    "-oAcquire::AllowInsecureRepositories=false", "-oAcquire::AllowWeakRepositories=false",
	    "-oAPT::Get::AllowUnauthenticated=false", "-oAcquire::Languages=none"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(words); i++)
		r = put(v, e, "", words[i], "");
	if (r == 0)
		r = put(v, e, "-oDir::State=", d->state, "/state");
	if (r == 0)
		r = put(v, e, "-oDir::Etc::sourcelist=", d->state, "/sources.list");
	if (r == 0)
		r = put(v, e, "-oDir::State::status=", d->get, "/status");
	if (r == 0)
		r = put(v, e, "-oDir::Cache=", d->get, "");
	if (r == 0)
		r = put(v, e, "-oDir::Cache::archives=", d->debs, "");
	return r == 0 ? put(v, e, "", verb, "") : r;
}

static int add_packages(const struct recipe *r, const struct strv *pins, struct strv *v, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < ARRAY_LEN(needed); i++)
		ret = put(v, e, "", needed[i], "");
	for (uint32_t i = 0; ret == 0 && i < r->packages.n; i++)
		ret = put(v, e, "", r->packages.v[i], "");
	for (uint32_t i = 0; ret == 0 && i < pins->n; i++)
		ret = put(v, e, "", pins->v[i], "");
	return ret;
}

/* One apt-get: its output to *out when that is wanted, its failure in words of the recipe. */
static int get(const struct apt_folders *d, const struct recipe *r, const char *file, const struct strv *pins,
	       const char *verb, const char *option, const char *doing, char **out, struct err *e)
{
	struct apt_run run = {.program = "/usr/bin/apt-get", .doing = doing, .disk = d->get};
	_cleanup_free_ char *text = NULL;
	int ret = asprintf(&run.config, "%s/apt.conf", d->get) < 0 ? no_memory(e) : 0;

	if (ret == 0)
		ret = command(d, verb, &run.args, e);
	if (ret == 0 && option != NULL)
		ret = put(&run.args, e, "", option, "");
	if (ret == 0 && option != NULL)
		ret = add_packages(r, pins, &run.args, e);
	if (ret == 0 && apt_run(&run, &text, e) < 0)
		ret = run.failed ? apt_explain(text, r, file, e) : -e->errnum;
	if (ret == 0 && out != NULL)
		*out = steal_ptr(&text);
	strv_done(&run.args);
	free(run.config);
	return ret;
}

static int fetch(const struct recipe *r, const char *file, const struct strv *pins, bool show, struct apt_folders *d,
		 struct image_debs *ret, struct err *e)
{
	_cleanup_free_ char *uris = NULL;
	struct apt_list list = {.v = NULL};
	char doing[96];
	unsigned int missing = 0;
	int n = write_status(r, d->get, e);

	if (n == 0)
		n = write_config(d->get, e);
	if (n == 0)
		n = get(d, r, file, pins, "update", NULL, show ? "asking for the archive's state" : NULL, NULL, e);
	if (n == 0)
		n = get(d, r, file, pins, "install", "--print-uris", NULL, &uris, e);
	if (n == 0)
		n = apt_list_read(uris, &list, e);
	if (n == 0)
		n = apt_pool_take(d, &list, &missing, e);
	if (n == 0 && missing > 0) {
		(void)snprintf(doing, sizeof(doing), "downloading %u of %u packages", missing, list.n);
		n = get(d, r, file, pins, "install", "--download-only", show ? doing : NULL, NULL, e);
	}
	if (n == 0)
		n = apt_pool_keep(d, &list, e);
	ret->n = list.n;
	apt_list_done(&list);
	return n;
}

int image_apt_fetch(const struct recipe *r, const char *file, const struct strv *pins, bool show,
		    struct image_debs *ret, struct err *e)
{
	struct apt_folders d = {.state = NULL, .lock_fd = -1, .get_fd = -1};
	_cleanup_free_ char *list = NULL;
	int n;

	*ret = IMAGE_DEBS_INIT;
	if (access("/usr/bin/apt-get", X_OK) < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "apt-get is needed: build on Debian or one of its children");
	if (r->keyring != NULL && access(r->keyring, R_OK) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "%.100s:%d: keyring: %s: %s", file, r->line[RECIPE_KEYRING], r->keyring,
			       strerror(errno));
	if (r->keyring == NULL && access(DEBIAN_KEYRING, R_OK) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "Debian's keys are needed: apt-get install debian-archive-keyring");
	n = sources(r, &list, e);
	if (n == 0)
		n = apt_folders_make(list, show, &d, e);
	if (n == 0)
		n = write_text(d.state, "sources.list", list, e);
	if (n == 0)
		n = fetch(r, file, pins, show, &d, ret, e);
	if (n == 0) {
		ret->dir = steal_ptr(&d.debs);
		ret->lock_fd = steal_fd(&d.get_fd);
	}
	apt_folders_done(&d, n == 0);
	return n;
}
