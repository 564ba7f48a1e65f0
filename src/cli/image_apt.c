#include "cli/image_apt.h"
/*
 * apt runs on the host as the caller, with a state folder of its own, an empty status file (so that everything is
 * to be installed) and nothing of the host's packages. It installs nothing: only downloads. A mirror can lie only
 * as far as the signatures of the keyring allow.
 */
#include "base/cleanup.h"
#include "base/quote.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What dpkg and the unpacking of a Debian need, by name: with nothing installed apt would choose usrmerge, whose
 * script wants a real chroot. */
const char *const image_apt_needed[] = {"base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils",
				     "diffutils", "dpkg", "findutils", "grep", "gzip", "hostname",
				     "init-system-helpers", "libc-bin", "perl-base", "sed", "tar", "usr-is-merged",
				     "mawk", NULL};

/* mkdir -p of a path of our own making. */
static int make_folders(const char *path, struct err *e)
{
	_cleanup_free_ char *p = strdup(path);

	if (p == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	for (char *s = p + 1;; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST)
			return err_set(e, ERR_DENIED, errno, "%s: %s", p, strerror(errno));
		*s = c;
		if (c == '\0')
			return 0;
	}
}

static int cache_folder(const char *name, char **ret, struct err *e)
{
	const char *own = getenv("BRIG_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	if (own != NULL && own[0] == '/')
		n = asprintf(ret, "%s/recipes/%s", own, name);
	else if (xdg != NULL && xdg[0] == '/')
		n = asprintf(ret, "%s/brig/recipes/%s", xdg, name);
	else
		n = asprintf(ret, "%s/.cache/brig/recipes/%s", home != NULL && home[0] == '/' ? home : "/root", name);
	return n < 0 ? err_set(e, ERR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int write_text(const char *dir, const char *file, const char *text, struct err *e)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/%s", dir, file) < 0)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return err_set(e, ERR_DENIED, errno, "%s: %s", path, strerror(errno));
	return 0;
}

/* Without mirrors the host's own sources count, so the host must be of that suite. */
static int check_host(const struct recipe *r, struct err *e)
{
	char text[8192], want[128];

	(void)snprintf(want, sizeof(want), "\nVERSION_CODENAME=%s\n", r->suite);
	if (file_get(AT_FDCWD, "/etc/os-release", text, sizeof(text)) >= 0 && strstr(text, want) != NULL)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "this host is no Debian '%s': give the recipe mirrors and a keyring", r->suite);
}

static int write_sources(const struct recipe *r, const char *dir, char **config, struct err *e)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *f;
	int ret;

	if (r->mirrors.n == 0)
		return check_host(r, e);
	f = open_memstream(&text, &n);
	if (f == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < r->mirrors.n; i++)
		(void)fprintf(f, "deb %s%s%s %s %s main\n", r->keyring != NULL ? "[signed-by=" : "",
			      r->keyring != NULL ? r->keyring : "", r->keyring != NULL ? "]" : "", r->mirrors.v[i],
			      r->suite);
	ret = fclose(f) == 0 ? write_text(dir, "sources.list", text, e) : err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	if (ret == 0 && asprintf(config, "-oDir::Etc::sourcelist=%s/sources.list", dir) < 0)
		ret = err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	return ret;
}

/* Run apt-get; its own words are a person's, and kept for the one line of a failure. */
static int apt(struct strv *args, bool show, struct err *e)
{
	char log[] = "/tmp/brig-apt-XXXXXX", text[4096], q[QUOTE_MAX], *last, *line, *save = NULL;
	_cleanup_close_ int fd = mkostemp(log, O_CLOEXEC);
	int status = 0;
	ssize_t n;
	pid_t pid;

	if (fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "%s: %s", log, strerror(errno));
	(void)unlink(log);
	pid = fork();
	if (pid == 0) {
		if ((!show && dup2(fd, 1) < 0) || (show && dup2(2, 1) < 0) || dup2(fd, 2) < 0)
			_exit(127);
		(void)setenv("LC_ALL", "C.UTF-8", 1);
		(void)execv("/usr/bin/apt-get", args->v);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	n = lseek(fd, 0, SEEK_END);
	n = pread(fd, text, sizeof(text) - 1, n > (ssize_t)sizeof(text) - 1 ? n - (ssize_t)sizeof(text) + 1 : 0);
	text[n > 0 ? n : 0] = '\0';
	last = NULL;
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, "E: ", 3) == 0 && last == NULL)
			last = line + 3;
	return err_set(e, ERR_INVALID, EINVAL, "apt-get: %s", last != NULL ? quote(last, q) : "failed");
}

static int put(struct strv *v, struct err *e, const char *fmt, const char *dir)
{
	_cleanup_free_ char *s = NULL;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (asprintf(&s, fmt, dir) < 0 || strv_add(v, s) < 0) /* the literals below */
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
#pragma GCC diagnostic pop
	return 0;
}

static int common(struct strv *v, const char *dir, const char *sources, struct err *e)
{
	static const char *const words[] = {"apt-get", "-q", "-y", "-oDir::State=%s/state", "-oDir::State::status=%s/status",
					    "-oDir::Cache=%s", "-oAPT::Sandbox::User=", "-oAPT::Install-Recommends=false",
					    "-oAPT::Get::List-Cleanup=true", "-oDpkg::Use-Pty=0"};
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < sizeof(words) / sizeof(*words); i++)
		ret = put(v, e, words[i], dir);
	if (ret == 0 && sources != NULL)
		ret = put(v, e, "%s", sources);
	return ret == 0 && sources != NULL ? put(v, e, "-oDir::Etc::sourceparts=/dev/null%s", "") : ret;
}

int image_apt_fetch(const struct recipe *r, const char *name, bool show, char **debs, struct err *e)
{
	static const char *const folders[] = {"%s/state/lists/partial", "%s/archives/partial"};
	_cleanup_free_ char *dir = NULL, *sources = NULL;
	struct strv up = {.v = NULL}, in = {.v = NULL}, tidy = {.v = NULL}, made = {.v = NULL};
	int ret = access("/usr/bin/apt-get", X_OK) < 0
		      ? err_set(e, ERR_NOT_FOUND, ENOENT, "apt-get is needed: build on Debian or one of its children")
		      : cache_folder(name, &dir, e);

	for (size_t i = 0; ret == 0 && i < 2; i++) {
		ret = put(&made, e, folders[i], dir);
		if (ret == 0)
			ret = make_folders(made.v[i], e);
	}
	if (ret == 0)
		ret = write_text(dir, "status", "", e);
	if (ret == 0)
		ret = write_sources(r, dir, &sources, e);
	if (ret == 0)
		ret = common(&up, dir, sources, e);
	if (ret == 0)
		ret = common(&in, dir, sources, e);
	if (ret == 0)
		ret = common(&tidy, dir, sources, e);
	if (ret == 0 && (strv_add(&up, "update") < 0 || strv_add(&tidy, "autoclean") < 0 || strv_add(&in, "--download-only") < 0 ||
			 strv_add(&in, "install") < 0))
		ret = err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	for (size_t i = 0; ret == 0 && image_apt_needed[i] != NULL; i++)
		ret = put(&in, e, "%s", image_apt_needed[i]);
	for (uint32_t i = 0; ret == 0 && i < r->packages.n; i++)
		ret = put(&in, e, "%s", r->packages.v[i]);
	if (ret == 0)
		ret = apt(&up, show, e);
	if (ret == 0)
		ret = apt(&tidy, false, e);
	if (ret == 0)
		ret = apt(&in, show, e);
	if (ret == 0 && asprintf(debs, "%s/archives", dir) < 0)
		ret = err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	strv_done(&up);
	strv_done(&in);
	strv_done(&tidy);
	strv_done(&made);
	return ret;
}
