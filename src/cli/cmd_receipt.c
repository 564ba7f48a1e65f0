/* `brig receipt verify FILE` and `brig receipt key`: is a receipt genuine and what does it say, and
 * with which key does this machine sign. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cmd/command.h"
#include "cli/launch_receipt.h"
#include "cmd/say.h"
#include "receipt/receipt.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPT_WANT_JSON
#define OPT_WANT_KEY
#include "cli/options_common.h"

enum { EXIT_NOT_GENUINE = 1 };

static int finish(void) { return fflush(stdout) == 0 ? 0 : EXIT_FAULT; }

static int show_key(bool json)
{
	uint8_t pub[RECEIPT_PUB];
	struct err e = ERR_INIT;
	char text[RECEIPT_HEX];

	if (launch_receipt_key(true, pub, &e) < 0)
		return say_err(&e);
	if (json)
		(void)printf("{\"algorithm\":\"ed25519\",\"public\":\"%s\"}\n",
			     receipt_pub_text(pub, text));
	else
		(void)printf("%s\n", receipt_pub_text(pub, text));
	return finish();
}

static void print_text(const struct receipt_facts *f)
{
	char key[RECEIPT_HEX], when[64] = "?";
	time_t t = (time_t)f->time;
	struct tm tm;

	if (gmtime_r(&t, &tm) != NULL)
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	(void)printf("genuine: signed by %s\n", receipt_pub_text(f->pub, key));
	(void)printf("sandbox  %s, tier %s, %s\n", f->id, f->tier, when);
	(void)printf("image    %s%s%s\n", f->image, f->digest[0] != '\0' ? " " : "", f->digest);
	(void)printf("walls    %s\n", f->enforced
					  ? "as asked for"
					  : "NOT as asked for: the command was not started");
	for (uint32_t i = 0; i < f->differences; i++)
		(void)printf("differs  %s\n", f->diff[i]);
	for (uint32_t i = 0; i < f->gaps; i++)
		(void)printf("not enforced, and accepted: %s: %s\n", f->gap[i], f->reason[i]);
}

/* The payload was verified and is JSON: as it is, beside what was found out about it. */
static void print_json(const struct receipt_facts *f, const uint8_t *p)
{
	char key[RECEIPT_HEX];

	(void)printf("{\"genuine\":true,\"enforced\":%s,\"key\":\"%s\",\"receipt\":%.*s}\n",
		     f->enforced ? "true" : "false", receipt_pub_text(f->pub, key),
		     (int)f->payload_len, (const char *)p + f->payload_at);
}

static int refuse(const char *file, const struct err *e, bool json)
{
	char q[QUOTE_MAX];

	say("%s: %s", quote(file, q), e->msg);
	if (json) {
		json_t *o = json_pack("{s:b, s:s}", "genuine", 0, "reason", e->msg);

		(void)json_dumpf(o, stdout, JSON_COMPACT);
		(void)putchar('\n');
		json_decref(o);
	}
	return finish() == 0 ? EXIT_NOT_GENUINE : EXIT_FAULT;
}

static int verify(const char *file, const char *key, bool json)
{
	_cleanup_free_ uint8_t *p = NULL;
	static struct receipt_facts f;
	uint8_t pub[RECEIPT_PUB];
	struct err e = ERR_INIT;
	size_t n = 0;
	int r = key != NULL ? receipt_pub_read(key, pub, &e) : launch_receipt_key(false, pub, &e);

	if (r == 0)
		r = receipt_file_read(file, &p, &n, &e);
	if (r < 0)
		return say_err(&e);
	if (receipt_verify(p, n, pub, &f, &e) < 0)
		return refuse(file, &e, json);
	if (json)
		print_json(&f, p);
	else
		print_text(&f);
	if (finish() != 0)
		return EXIT_FAULT;
	return f.enforced ? 0 : EXIT_NOT_GENUINE;
}

static int receipt_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv + 1);
	bool json = false, is_key = argc >= 2 && strcmp(argv[1], "key") == 0;
	const char *value = NULL, *key = NULL;
	const struct opt *o = NULL;
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];
	int r = 0;

	if (argc < 2)
		r = err_set(&e, ERR_INVALID, EINVAL, "'verify FILE' or 'key' is needed");
	else if (!is_key && strcmp(argv[1], "verify") != 0)
		r = err_set(&e, ERR_INVALID, EINVAL, "unknown word %s: it takes 'verify' and 'key'",
			    quote(argv[1], q));
	while (r == 0 && (r = opt_next(&p, &o, &value, &e)) > 0) {
		json = json || o->id == O_JSON;
		if (o->id == O_KEY)
			key = value;
		r = 0;
	}
	if (r == 0 && is_key && (argv[1 + p.at] != NULL || key != NULL))
		r = err_set(&e, ERR_INVALID, EINVAL, "'key' takes no operand and no --key");
	if (r == 0 && !is_key && (argv[1 + p.at] == NULL || argv[2 + p.at] != NULL))
		r = err_set(&e, ERR_INVALID, EINVAL, "one FILE is needed");
	if (r < 0)
		return say_usage("receipt", &e);
	return is_key ? show_key(json) : verify(argv[1 + p.at], key, json);
}

const struct command_impl command_receipt = {
    .run = receipt_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes =
	"verify: exit 0 when FILE is genuine and says the walls stood as asked for, 1 when not\n"
	"(the reason is on stderr), 125 on wrong usage. It works offline.\n"
	"key: prints this machine's public key, which 'verify --key' takes on another one.\n\n"
	"  brig run --receipt r.txt -- make\n"
	"  brig receipt verify r.txt\n",
    .words = "verify key",
};
