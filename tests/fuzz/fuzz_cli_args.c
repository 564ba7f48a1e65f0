/* The words after `brig run`, one a line: parsing only, so nothing is read or started. */
#include "cli/run_args.h"
#include "cli/run_path.h"
#include "cli/script.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 };

static void files(const struct run_args *a)
{
	struct path_pair pair = {NULL, NULL};
	struct err e = ERR_INIT;

	for (uint32_t i = 0; i < a->files.n; i++)
		if (parse_file_in(a->files.v[i], &pair, &e) == 0) {
			if (pair.right[0] != '/' || strstr(pair.right, "/../") != NULL)
				abort();
			path_pair_done(&pair);
		}
	for (uint32_t i = 0; i < a->outs.n; i++)
		if (parse_file_out(a->outs.v[i], &pair, &e) == 0) {
			if (pair.left[0] != '/' || strstr(pair.left, "/../") != NULL)
				abort();
			path_pair_done(&pair);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = malloc(n + 1), *argv[WORDS + 2], name[] = "run";
	struct err e = ERR_INIT;
	struct run_args a;
	struct script s;
	int at = 0;

	if (text == NULL)
		return 0;
	memcpy(text, p, n);
	text[n] = '\0';
	argv[at++] = name;
	for (char *w = text; w != NULL && at < WORDS; at++) {
		argv[at] = w;
		w = strchr(w, '\n');
		if (w != NULL)
			*w++ = '\0';
	}
	argv[at] = NULL;
	if (run_args_parse(argv, &a, &e) == 0) {
		if (a.command[0] == NULL || a.command[0][0] == '\0')
			abort();
		files(&a);
	} else if (e.msg[0] == '\0' || strchr(e.msg, '\033') != NULL) {
		abort();
	}
	run_args_done(&a);
	free(text);
	if (n >= 2 && script_shebang((const char *)p, n, &s) == 0 && s.interpreter[0] == '\0')
		abort();
	return 0;
}
