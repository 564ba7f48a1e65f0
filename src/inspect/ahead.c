#include "inspect/priv.h"

#include "base/num.h"

/*
 * A body's beginning usually comes together with its head. What of it is here is looked at before the head goes on, or
 * a server is even dialled: what can be refused now reaches nobody. The rest is judged when it comes (request.c), which is why
 * nothing is taken out here.
 */

static const struct refusal fine;

/* A run of content. */
static struct refusal content(const struct conn *k, struct sieve *v, const uint8_t *p, size_t n)
{
	struct buf out;
	uint64_t found = 0;
	int r;

	if (k->b->marks.n == 0 || n == 0)
		return fine;
	buf_init(&out, n + SIEVE_LONGEST);
	r = sieve_pass(v, &k->b->marks, p, n, false, &out, &found);
	buf_done(&out);
	if (r < 0)
		return (struct refusal){502, "overload"};
	return (found & ~k->marks_ok) != 0 ? (struct refusal){403, "secret_placeholder_misuse"} : fine;
}

static struct refusal in_chunks(const struct conn *k, struct sieve *v, const uint8_t *p, size_t n)
{
	struct http_chunks c = {.state = 0};
	struct refusal no = fine;
	uint64_t seen = 0;

	while (no.status == 0 && !c.done) {
		const uint8_t *data;
		size_t data_n;
		ssize_t took = http_chunks_step(&c, p, n, &data, &data_n);

		if (took < 0)
			return (struct refusal){400, "http_unparsable"};
		if (took == 0)
			break;
		seen += data_n;
		if (k->http->max_body_bytes != 0 && seen > k->http->max_body_bytes)
			return (struct refusal){413, "body_size"};
		no = content(k, v, data, data_n);
		p += took;
		n -= (size_t)took;
	}
	return no;
}

struct refusal body_ahead(struct conn *k, const struct http_head *h, size_t size)
{
	const uint8_t *p = buf_head(&k->c.in) + size;
	size_t n = k->c.in.len - size;
	struct refusal no = fine;
	struct sieve v;

	if (n == 0 || h->body == HTTP_NONE)
		return fine;
	sieve_init(&v);
	if (h->body == HTTP_CHUNKED)
		no = in_chunks(k, &v, p, n);
	else
		no = content(k, &v, p, (size_t)MIN((uint64_t)n, h->length));
	sieve_done(&v);
	return no;
}
