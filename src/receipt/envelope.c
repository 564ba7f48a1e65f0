#include "receipt/envelope_priv.h"

#include "base/cleanup.h"
#include "sys/pages.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/*
 *      brig-receipt 1 KEY SIGNATURE\n
 *      {payload}\n
 *
 * KEY and SIGNATURE in lower-case hex; one space, nothing before, between or after. The signature
 * is over the prefix below and the payload's bytes, without its line end, so a signature of this
 * key made for something else never fits. Every byte of the file has one possible value: no other
 * spelling verifies.
 *
 * Fed by files of anybody's.
 */

static const char magic[] = "brig-receipt ";
static const char version[] = "1 ";
static const char domain[] = "brig-receipt-v1"; /* signed with its NUL */

enum {
	KEY_AT = sizeof(magic) - 1 + sizeof(version) - 1,
	SIG_AT = KEY_AT + 2 * RECEIPT_PUB + 1,
	LINE_LEN = SIG_AT + 2 * RECEIPT_SIG + 1, /* with its line end */
	USUAL = 12 * 1024,			 /* bytes of most receipts */
};

/* The bytes a verifier takes as signed; owned. */
static uint8_t *to_sign(const char *payload, size_t n)
{
	uint8_t *m = malloc(sizeof(domain) + n);

	if (m != NULL) {
		memcpy(m, domain, sizeof(domain));
		memcpy(m + sizeof(domain), payload, n);
	}
	return m;
}

int receipt_room(struct buf *file)
{
	uint8_t *at = buf_reserve(file, USUAL);

	if (at == NULL)
		return -ENOMEM;
	pages_make(at, USUAL);
	memset(at, ' ', LINE_LEN);
	buf_commit(file, LINE_LEN);
	return 0;
}

int receipt_seal(const struct receipt_key *k, struct buf *file)
{
	char line[LINE_LEN + 1], pub[RECEIPT_HEX], hex[2 * RECEIPT_SIG + 1];
	uint8_t sig[RECEIPT_SIG], *head = file->data + file->off;
	uint8_t *m = head + LINE_LEN - sizeof(domain);

	/* what is signed begins with the domain, for which there is room where the line will be */
	memcpy(m, domain, sizeof(domain));
	if (crypto_sign_detached(sig, NULL, m, file->len - LINE_LEN + sizeof(domain), k->secret) !=
	    0)
		return -EIO;
	(void)snprintf(line, sizeof(line), "%s%s%s %s\n", magic, version,
		       receipt_pub_text(k->pub, pub),
		       sodium_bin2hex(hex, sizeof(hex), sig, sizeof(sig)));
	memcpy(head, line, LINE_LEN);
	return buf_put(file, "\n", 1);
}

bool receipt_unhex(const char *s, size_t bytes, uint8_t *ret)
{
	for (size_t i = 0; i < 2 * bytes; i++)
		if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	return sodium_hex2bin(ret, bytes, s, 2 * bytes, NULL, NULL, NULL) == 0;
}

int receipt_split(const void *p, size_t n, struct receipt_parts *ret, struct err *e)
{
	const char *s = p;

	if (n > RECEIPT_MAX)
		return err_set(e, ERR_INVALID, EBADMSG, "larger than any receipt (%d bytes)",
			       RECEIPT_MAX);
	if (n < sizeof(magic) - 1 || memcmp(s, magic, sizeof(magic) - 1) != 0)
		return err_set(e, ERR_INVALID, EBADMSG, "not a receipt");
	if (n < KEY_AT)
		return err_set(e, ERR_INVALID, EBADMSG, "cut short");
	if (memcmp(s + sizeof(magic) - 1, version, sizeof(version) - 1) != 0)
		return err_set(e, ERR_UNSUPPORTED, EPROTONOSUPPORT,
			       "of a format this version of brig does not know");
	if (n < LINE_LEN + 3)
		return err_set(e, ERR_INVALID, EBADMSG, "cut short");
	if (!receipt_unhex(s + KEY_AT, RECEIPT_PUB, ret->pub) || s[SIG_AT - 1] != ' ' ||
	    !receipt_unhex(s + SIG_AT, RECEIPT_SIG, ret->sig) || s[LINE_LEN - 1] != '\n')
		return err_set(e, ERR_INVALID, EBADMSG, "its first line is malformed");
	if (s[n - 1] != '\n')
		return err_set(e, ERR_INVALID, EBADMSG, "cut short, or something follows its end");
	ret->payload = s + LINE_LEN;
	ret->n = n - LINE_LEN - 1;
	if (memchr(ret->payload, '\n', ret->n) != NULL)
		return err_set(e, ERR_INVALID, EBADMSG, "something follows its end");
	return 0;
}

bool receipt_signed_by(const struct receipt_parts *r, const uint8_t pub[RECEIPT_PUB])
{
	_cleanup_free_ uint8_t *m = to_sign(r->payload, r->n);

	return m != NULL && sodium_init() >= 0 &&
	       crypto_sign_verify_detached(r->sig, m, sizeof(domain) + r->n, pub) == 0;
}
