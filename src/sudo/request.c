#include "sudo/sudo.h"

#include "base/num.h"
#include "wire/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What of the caller's environment goes along, and what is asked of PID 1, which adds what depends on the user: HOME, USER,
 * LOGNAME and SHELL where the request has none, the usual PATH, and who called. */

/* As sudo(8) without a configuration; a * stands for any end. */
static const char *const kept[] = {"TERM",	"COLORTERM", "LANG",   "LANGUAGE",    "LINGUAS",  "LC_*",     "TZ",
				   "DISPLAY",	"XAUTHORITY", "COLORS", "LS_COLORS",   "PS1",	  "PS2",      "HOSTNAME",
				   "DPKG_COLORS", "KRB5CCNAME", "XDG_CURRENT_DESKTOP", "XAUTHORIZATION"};
/* Never the caller's, whatever is asked for. */
static const char *const never[] = {"PATH", "USER", "LOGNAME", "MAIL", "SUDO_*"};

static bool matches(const char *pattern, const char *name, size_t n)
{
	size_t m = strcspn(pattern, "*");

	return n >= m && memcmp(pattern, name, m) == 0 && (pattern[m] == '*' || n == m);
}

static bool listed(const char *names, const char *name, size_t n)
{
	while (names != NULL && *names != '\0') {
		size_t m = strcspn(names, ",");

		if (m == n && memcmp(names, name, n) == 0)
			return true;
		names += m + (names[m] == ',');
	}
	return false;
}

bool sudo_keeps(const struct sudo_args *a, const char *var)
{
	const char *eq = strchr(var, '=');
	size_t n = eq != NULL ? (size_t)(eq - var) : 0;

	if (n == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (matches(never[i], var, n))
			return false;
	if ((a->set_home || a->mode == SUDO_LOGIN) && matches("HOME", var, n))
		return false;
	for (size_t i = 0; i < a->assign_n; i++) /* which come last */
		if (strncmp(a->assign[i], var, n + 1) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (matches(kept[i], var, n))
			return true;
	return a->keep_env || listed(a->keep, var, n);
}

static bool plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '$';
}

char *sudo_quote(const char *const *words)
{
	size_t n = 1;
	char *text, *at;

	for (size_t i = 0; words[i] != NULL; i++)
		n += 2 * strlen(words[i]) + 1;
	text = at = calloc(1, n);
	if (text == NULL)
		return NULL;
	for (size_t i = 0; words[i] != NULL; i++) {
		if (i > 0)
			*at++ = ' ';
		for (const char *c = words[i]; *c != '\0'; c++) {
			if (!plain(*c))
				*at++ = '\\';
			*at++ = *c;
		}
	}
	*at = '\0';
	return text;
}

static int put_command(const struct sudo_args *a, const struct user *target, const char *shell, struct msg_writer *w)
{
	char *text = NULL;

	if (a->mode == SUDO_RUN) {
		for (size_t i = 0; a->argv[i] != NULL; i++)
			msg_str(w, F_ARG, a->argv[i]);
		return 0;
	}
	if (a->mode != SUDO_LOGIN && a->mode != SUDO_SHELL)
		return 0; /* only whether it may */
	msg_str(w, F_ARG, a->mode == SUDO_SHELL ? shell : target != NULL ? target->shell : "/bin/sh");
	if (a->mode == SUDO_LOGIN)
		msg_str(w, F_ARG, "-l");
	if (a->argv[0] == NULL)
		return 0;
	text = sudo_quote(a->argv);
	if (text == NULL)
		return -ENOMEM;
	msg_str(w, F_ARG, "-c");
	msg_str(w, F_ARG, text);
	free(text);
	return 0;
}

/* SUDO_COMMAND: as long as it fits, for whoever reads it. */
static void put_words(const char *command, const char *const *argv, struct msg_writer *w)
{
	enum { MAX = 4096 };
	char text[MAX] = "SUDO_COMMAND=";
	size_t n = strlen(text);

	for (size_t i = 0; i == 0 || (argv[0] != NULL && argv[i] != NULL); i++) {
		const char *word = i == 0 ? command : argv[i];
		size_t m = strlen(word);

		if (m + 2 > MAX - n)
			break;
		if (i > 0)
			text[n++] = ' ';
		memcpy(text + n, word, m + 1);
		n += m;
	}
	msg_str(w, F_ENV, text);
}

int sudo_request(const struct sudo_args *a, char *const *env, unsigned mask, const struct user *target, const char *shell,
		 const char *command, struct buf *b)
{
	struct msg_writer w = {.b = b};
	int r;

	msg_u64(&w, F_KIND, REQ_EXEC);
	msg_str(&w, F_USER, a->user);
	msg_u64(&w, F_UMASK, mask | 022);
	r = put_command(a, target, shell, &w);
	for (size_t i = 0; env[i] != NULL; i++)
		if (sudo_keeps(a, env[i]))
			msg_str(&w, F_ENV, env[i]);
	for (size_t i = 0; i < a->assign_n; i++)
		if (!matches("SUDO_*", a->assign[i], strcspn(a->assign[i], "=")))
			msg_str(&w, F_ENV, a->assign[i]);
	put_words(command, a->argv, &w);
	if (r == 0 && w.err != 0)
		r = w.err == -ENOMEM ? -ENOMEM : -E2BIG;
	return r;
}
