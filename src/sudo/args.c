#include "sudo/sudo.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * The command line. Options are sudo(8)'s; those that only speak of passwords or time stamps are taken and mean nothing,
 * since none is asked for; those that would need what is not here are refused by their name.
 */

enum arg { NO_ARG, NEEDS_ARG, MAY_ARG };

static const struct option {
	char letter; /* 0 = none */
	const char *name;
	enum arg arg;
} options[] = {
    {'E', "preserve-env", MAY_ARG},
    {'H', "set-home", NO_ARG},
    {'h', "help", NO_ARG},
    {'i', "login", NO_ARG},
    {'K', "remove-timestamp", NO_ARG},
    {'k', "reset-timestamp", NO_ARG},
    {'l', "list", NO_ARG},
    {'n', "non-interactive", NO_ARG},
    {'p', "prompt", NEEDS_ARG},
    {'S', "stdin", NO_ARG},
    {'s', "shell", NO_ARG},
    {'u', "user", NEEDS_ARG},
    {'V', "version", NO_ARG},
    {'v', "validate", NO_ARG},
};

static int set_mode(struct sudo_args *a, enum sudo_mode m, char *why, size_t size)
{
	if (a->mode != SUDO_RUN && a->mode != m) {
		(void)snprintf(why, size, "only one of -h, -i, -K, -k, -l, -s, -V and -v may be given");
		return -EINVAL;
	}
	a->mode = m;
	return 0;
}

/* A number is a uid with # in front, as sudo has it; the agent takes it without. */
static int set_user(struct sudo_args *a, const char *user, char *why, size_t size)
{
	bool number = user[0] == '#';
	const char *name = user + number;

	if (name[0] == '\0' || strlen(name) > USER_STR_MAX - 1 || strchr(name, ':') != NULL ||
	    (strspn(name, "0123456789") == strlen(name)) != number) {
		(void)snprintf(why, size, "unknown user %.64s", user);
		return -EINVAL;
	}
	a->user = name;
	return 0;
}

/* An option with its argument. */
static int apply_value(struct sudo_args *a, char letter, const char *value, char *why, size_t size)
{
	if (letter == 'u')
		return set_user(a, value, why, size);
	if (letter == 'E')
		a->keep = value;
	return 0; /* p: nothing is asked for */
}

static int apply(struct sudo_args *a, char letter, char *why, size_t size)
{
	switch (letter) {
	case 'E': a->keep_env = true; return 0;
	case 'H': a->set_home = true; return 0;
	case 'h': return set_mode(a, SUDO_HELP, why, size);
	case 'i': return set_mode(a, SUDO_LOGIN, why, size);
	case 's': return set_mode(a, SUDO_SHELL, why, size);
	case 'l': return set_mode(a, SUDO_LIST, why, size);
	case 'v': return set_mode(a, SUDO_VALIDATE, why, size);
	case 'V': return set_mode(a, SUDO_VERSION_TEXT, why, size);
	case 'K':
	case 'k': return set_mode(a, SUDO_FORGET, why, size);
	default: return 0; /* n, S: nothing is asked for */
	}
}

static const struct option *by_letter(char c)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (options[i].letter == c)
			return &options[i];
	return NULL;
}

static int no_argument(const char *name, char *why, size_t size)
{
	(void)snprintf(why, size, "option '%.64s' needs an argument", name);
	return -EINVAL;
}

/* One word of letters; *at may take the next word as an argument. */
static int letters(struct sudo_args *a, const char *const **at, char *why, size_t size)
{
	const char *word = **at;

	for (const char *c = word + 1; *c != '\0'; c++) {
		const struct option *o = by_letter(*c);
		char name[] = {'-', *c, '\0'};
		const char *value = NULL;
		int r;

		if (o == NULL) {
			(void)snprintf(why, size, "option '-%c' is not known here", *c >= ' ' && *c <= '~' ? *c : '?');
			return -EINVAL;
		}
		if (o->arg == NEEDS_ARG) {
			value = c[1] != '\0' ? c + 1 : *++*at;
			if (value == NULL)
				return no_argument(name, why, size);
			return apply_value(a, *c, value, why, size);
		}
		r = apply(a, *c, why, size);
		if (r < 0)
			return r;
	}
	return 0;
}

static int long_option(struct sudo_args *a, const char *const **at, char *why, size_t size)
{
	const char *name = **at + 2, *eq = strchr(name, '=');
	size_t n = eq != NULL ? (size_t)(eq - name) : strlen(name);

	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct option *o = &options[i];
		const char *value = eq != NULL ? eq + 1 : NULL;

		if (strlen(o->name) != n || strncmp(o->name, name, n) != 0)
			continue;
		if (o->arg == NO_ARG && value != NULL)
			break;
		if (o->arg == NEEDS_ARG && value == NULL && (value = *++*at) == NULL)
			return no_argument(o->name, why, size);
		return value != NULL ? apply_value(a, o->letter, value, why, size) : apply(a, o->letter, why, size);
	}
	(void)snprintf(why, size, "option '--%.64s' is not known here", name);
	return -EINVAL;
}

static bool is_assignment(const char *word)
{
	size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	return n > 0 && word[n] == '=' && (word[0] < '0' || word[0] > '9');
}

static int check(const struct sudo_args *a, char *why, size_t size)
{
	bool command = a->argv[0] != NULL;

	if (a->mode == SUDO_LOGIN && a->keep_env)
		(void)snprintf(why, size, "you may not specify both the -i and -E options");
	else if ((a->mode == SUDO_VALIDATE || a->mode == SUDO_HELP || a->mode == SUDO_VERSION_TEXT) && command)
		(void)snprintf(why, size, "this option and a command exclude each other");
	else if (a->mode == SUDO_RUN && !command)
		(void)snprintf(why, size, "no command given; 'sudo --help' says how");
	else
		return 0;
	return -EINVAL;
}

int sudo_args_parse(const char *const *argv, struct sudo_args *ret, char *why, size_t size)
{
	struct sudo_args a = {.mode = SUDO_RUN, .user = "root"};
	const char *const *at = argv;
	int r = 0;

	for (; *at != NULL && (*at)[0] == '-' && (*at)[1] != '\0'; at++) {
		if (strcmp(*at, "--") == 0) {
			at++;
			break;
		}
		r = (*at)[1] == '-' ? long_option(&a, &at, why, size) : letters(&a, &at, why, size);
		if (r < 0)
			return r;
	}
	a.assign = at;
	while (*at != NULL && is_assignment(*at))
		at++;
	a.assign_n = (size_t)(at - a.assign);
	a.argv = at;
	if (a.mode == SUDO_FORGET && *at != NULL)
		a.mode = SUDO_RUN; /* nothing is remembered anyway */
	r = check(&a, why, size);
	if (r == 0)
		*ret = a;
	return r;
}
