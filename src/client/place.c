#include "client/place.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Given by the caller, who is trusted with his own key but makes mistakes: a key that others can
 * read, or that would go over a network for all to read, is refused. URLs are taken apart by
 * libcurl's parser, the one that is used to connect. */

static const char *env(const char *a, const char *b)
{
	const char *v = getenv(a);

	if (v == NULL || *v == '\0')
		v = getenv(b);
	return v != NULL && *v != '\0' ? v : NULL;
}

/* Only this machine hears what is said to it. */
static bool is_local(const char *host)
{
	size_t n = strlen(host);

	return strcmp(host, "localhost") == 0 ||
	       (n > 10 && strcmp(host + n - 10, ".localhost") == 0) ||
	       (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == n) ||
	       strcmp(host, "[::1]") == 0;
}

static int bad_url(const char *text, const char *why, struct err *e)
{
	char q[QUOTE_MAX];

	return err_set(e, ERR_INVALID, EINVAL, "the daemon's URL %s: %s", quote(text, q), why);
}

static int unix_url(const char *text, struct place *ret, struct err *e)
{
	const char *path = text + strlen("unix:");

	if (path[0] != '/' || strlen(path) > 107)
		return bad_url(text, "unix: takes an absolute path of at most 107 bytes", e);
	ret->socket = strdup(path);
	ret->url = strdup("http://localhost");
	return ret->socket == NULL || ret->url == NULL ? err_no_memory(e) : 0;
}

/* What stands in the URL beside scheme, host, port and path has no meaning here. */
static bool has(CURLU *u, CURLUPart part)
{
	char *v = NULL;
	bool there = curl_url_get(u, part, &v, 0) == CURLUE_OK;

	curl_free(v);
	return there;
}

static int check_url(CURLU *u, const char *text, bool plain, struct place *ret, struct err *e)
{
	char *scheme = NULL, *host = NULL, *whole = NULL;
	int r = 0;

	if (curl_url_set(u, CURLUPART_URL, text, 0) != CURLUE_OK ||
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
	    curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
	    curl_url_get(u, CURLUPART_URL, &whole, 0) != CURLUE_OK)
		r = bad_url(text, "http://HOST:PORT, https://HOST or unix:/PATH is wanted", e);
	else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
		r = bad_url(text, "http://, https:// or unix: is wanted", e);
	else if (has(u, CURLUPART_USER) || has(u, CURLUPART_PASSWORD))
		r = bad_url(text,
			    "a name or password has no place in it: keys come from --key-file or "
			    "BRIG_API_KEY",
			    e);
	else if (has(u, CURLUPART_QUERY) || has(u, CURLUPART_FRAGMENT))
		r = bad_url(text, "it must end before '?' and '#'", e);
	else if (strcmp(scheme, "http") == 0 && !is_local(host) && !plain)
		r = bad_url(text,
			    "the key would cross the network in the clear: use https://, or "
			    "--plain if that network is yours",
			    e);
	if (r == 0) {
		size_t n = strlen(whole);

		while (n > 0 && whole[n - 1] == '/')
			n--;
		ret->secure = strcmp(scheme, "https") == 0;
		ret->url = strndup(whole, n);
		r = ret->url == NULL ? err_no_memory(e) : 0;
	}
	curl_free(scheme);
	curl_free(host);
	curl_free(whole);
	return r;
}

int place_url(const char *text, bool plain, struct place *ret, struct err *e)
{
	char q[QUOTE_MAX];
	CURLU *u;
	int r;

	ret->shown = strdup(quote_bare(text, q));
	if (ret->shown == NULL)
		return err_no_memory(e);
	if (strncmp(text, "unix:", 5) == 0)
		return unix_url(text, ret, e);
	u = curl_url();
	r = u == NULL ? err_no_memory(e) : check_url(u, text, plain, ret, e);
	curl_url_cleanup(u);
	return r;
}

int place_key(const char *text, char ret[PLACE_KEY_MAX + 1])
{
	size_t n;

	text += strspn(text, " \t\r\n");
	for (n = 0; text[n] > ' ' && text[n] < 0x7f; n++)
		;
	if (n == 0 || n > PLACE_KEY_MAX || text[n + strspn(text + n, " \t\r\n")] != '\0')
		return -EINVAL;
	memcpy(ret, text, n);
	ret[n] = '\0';
	return 0;
}

static int take_key(struct place *w, const char *text, const char *from, struct err *e)
{
	char key[PLACE_KEY_MAX + 1], q[QUOTE_MAX];
	int r = 0;

	if (place_key(text, key) < 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s holds no key: one word as 'brig key create' prints it is wanted",
			       quote_bare(from, q));
	w->key = strdup(key);
	if (w->key == NULL)
		r = err_no_memory(e);
	explicit_bzero(key, sizeof(key));
	return r;
}

static int read_key(struct place *w, const char *path, struct err *e)
{
	char text[PLACE_KEY_MAX + 64], q[QUOTE_MAX];
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	size_t at = 0;
	ssize_t n = 0;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INVALID, errno, "the key file %s: %s", quote(path, q),
			       strerror(errno));
	if (S_ISREG(st.st_mode) && (st.st_mode & 0007) != 0)
		return err_set(e, ERR_DENIED, EPERM,
			       "the key file %s is open to everybody: chmod 600 it",
			       quote(path, q));
	(void)fcntl(fd, F_SETFL, 0); /* of a pipe the whole is waited for */
	while (at < sizeof(text) - 1 && (n = read(fd, text + at, sizeof(text) - 1 - at)) > 0)
		at += (size_t)n;
	if (n < 0)
		return err_set(e, ERR_INVALID, errno, "the key file %s: %s", quote(path, q),
			       strerror(errno));
	text[at] = '\0';
	r = take_key(w, text, path, e);
	explicit_bzero(text, sizeof(text));
	return r;
}

/* The file where a user keeps the one key he has; -ENOENT = there is none. */
static int usual_key(struct place *w, struct err *e)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char path[PATH_MAX];
	int n;

	if (config != NULL && config[0] == '/')
		n = snprintf(path, sizeof(path), "%s/brig/key", config);
	else
		n = snprintf(path, sizeof(path), "%s/.config/brig/key", home != NULL ? home : "");
	if (n < 0 || (size_t)n >= sizeof(path) || path[0] != '/' || access(path, F_OK) < 0)
		return 0;
	return read_key(w, path, e);
}

int place_find(struct place *w, struct err *e)
{
	const char *url = w->given_url != NULL ? w->given_url : env("BRIG_URL", "E2B_API_URL");
	const char *key = env("BRIG_API_KEY", "E2B_API_KEY");
	int r;

	if (w->ca == NULL)
		w->ca = env("BRIG_CA", "BRIG_CA");
	r = place_url(url != NULL ? url : PLACE_DEFAULT_URL, w->plain, w, e);
	if (r < 0)
		return r;
	if (w->key_file != NULL)
		return read_key(w, w->key_file, e);
	if (key != NULL)
		return take_key(w, key,
				getenv("BRIG_API_KEY") != NULL ? "BRIG_API_KEY" : "E2B_API_KEY", e);
	return usual_key(w, e);
}

void place_done(struct place *w)
{
	if (w->key != NULL)
		explicit_bzero(w->key, strlen(w->key));
	free(w->key);
	free(w->url);
	free(w->socket);
	free(w->shown);
	w->key = w->url = w->socket = w->shown = NULL;
}
