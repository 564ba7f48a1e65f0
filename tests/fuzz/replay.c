/*
 * Runs a fuzz target over its committed corpus, without libFuzzer: the release build's code meets
 * every input that was ever found interesting. Speaks TAP, one test per input.
 *
 * The corpus is tests/fuzz/corpus/NAME, where NAME is the program's own name, or the files given.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 16 * 1024 * 1024 };

/* An exact heap copy per input, so that a read past its end can be seen by checkers. */
static int replay(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	long size;
	int r = -1;

	if (!f)
		return -1;
	if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && size <= INPUT_MAX) {
		rewind(f);
		data = malloc((size_t)size ? (size_t)size : 1);
		if (data && fread(data, 1, (size_t)size, f) == (size_t)size)
			r = LLVMFuzzerTestOneInput(data, (size_t)size);
		free(data);
	}
	(void)fclose(f);
	return r;
}

static int report(int n, const char *path)
{
	int r = replay(path);

	printf("%sok %d - %s\n", r == 0 ? "" : "not ", n, path);
	(void)fflush(stdout); /* an input that kills us must not take the earlier lines along */
	return r != 0;
}

static int is_input(const struct dirent *d) { return d->d_name[0] != '.'; }

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	struct dirent **list = NULL;
	char dir[256];
	char path[1024];
	int failed = 0;
	int n = 0;

	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			failed += report(++n, argv[i]);
	} else {
		(void)snprintf(dir, sizeof(dir), "tests/fuzz/corpus/%s", name ? name + 1 : argv[0]);
		int found = scandir(dir, &list, is_input, alphasort);

		for (int i = 0; i < found; i++) {
			(void)snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
			failed += report(++n, path);
			free(list[i]);
		}
		free(list);
	}
	if (n == 0) {
		printf("not ok %d - %s has no inputs\n", ++n, dir);
		failed = 1;
	}
	printf("1..%d\n", n);
	return failed ? 1 : 0;
}
