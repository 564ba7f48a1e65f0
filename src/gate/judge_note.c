#include "gate/judge_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Which refusals are written. A program that tries the same again and again must not fill the log: within a window the
 * first is written, the rest is counted and told when the window is over. Questions for names have a rate besides, since each
 * may be for another. Counting never loses one: without room, or memory, all are written.
 */

static uint64_t hash_text(uint64_t h, const char *s) { return s == NULL || s[0] == '\0' ? h : hash_bytes(h, s, strlen(s) + 1); }

static uint64_t hash_of(const struct judge_record *r)
{
	uint64_t h = hash_text(hash_text(hash_text(hash_text(HASH_START, r->event), r->reason), r->rule), r->transport);

	if (r->asked != NULL)
		h = hash_bytes(h, r->asked, r->asked_n);
	if (r->dest != NULL) {
		h = hash_text(h, r->dest->name);
		h = hash_bytes(h, r->dest->orig.a, sizeof(r->dest->orig.a));
		h = hash_bytes(h, &r->dest->port, sizeof(r->dest->port));
	}
	return h != 0 ? h : 1;
}

/* Texts that two records share must be equal, not only their hashes: those are the sandbox's. */
static bool same(const struct seen *s, const struct judge_record *r)
{
	if (s->r.event != r->event || s->r.reason != r->reason || s->r.transport != r->transport ||
	    (s->r.dest == NULL) != (r->dest == NULL) || s->r.asked_n != MIN(r->asked_n, sizeof(s->asked)) ||
	    (r->asked != NULL && memcmp(s->asked, r->asked, s->r.asked_n) != 0) ||
	    strcmp(s->rule, r->rule != NULL ? r->rule : "") != 0)
		return false;
	return r->dest == NULL || (s->dest.port == r->dest->port && strcmp(s->dest.name, r->dest->name) == 0 &&
				   memcmp(&s->dest.orig, &r->dest->orig, sizeof(s->dest.orig)) == 0);
}

static void keep(struct seen *s, const struct judge_record *r, uint64_t hash, uint64_t now_ms)
{
	*s = (struct seen){.at_ms = now_ms, .hash = hash};
	s->r = (struct judge_record){.event = r->event,
				     .reason = r->reason,
				     .transport = r->transport,
				     .rule = s->rule,
				     .would_deny = r->would_deny};
	if (r->rule != NULL)
		(void)snprintf(s->rule, sizeof(s->rule), "%s", r->rule);
	if (r->asked != NULL) {
		s->r.asked_n = MIN(r->asked_n, sizeof(s->asked));
		memcpy(s->asked, r->asked, s->r.asked_n);
		s->r.asked = s->asked;
	}
	if (r->dest != NULL) {
		s->dest = *r->dest;
		s->r.dest = &s->dest;
	}
}

/* A place for one more: a free one, or the oldest that has nothing left to tell. */
static struct seen *place(struct judge *j)
{
	struct seen *old = NULL;

	if (j->seen == NULL)
		j->seen = calloc(SEEN_MAX, sizeof(*j->seen));
	if (j->seen == NULL)
		return NULL;
	if (j->seen_n < SEEN_MAX)
		return &j->seen[j->seen_n++];
	for (uint32_t i = 0; i < SEEN_MAX; i++)
		if (j->seen[i].suppressed == 0 && (old == NULL || j->seen[i].at_ms < old->at_ms))
			old = &j->seen[i];
	return old;
}

static struct seen *find(const struct judge *j, const struct judge_record *r, uint64_t hash, uint64_t now_ms)
{
	for (uint32_t i = 0; i < j->seen_n; i++)
		if (j->seen[i].hash == hash && now_ms - j->seen[i].at_ms < (uint64_t)j->dedupe_window_s * 1000 &&
		    same(&j->seen[i], r))
			return &j->seen[i];
	return NULL;
}

bool judge_note(struct judge *j, struct judge_record *r, uint64_t now_ms)
{
	uint64_t hash;
	struct seen *s;

	if (r->allow)
		return true;
	j->denied++;
	r->alert = j->alert_after != 0 && j->denied == j->alert_after;
	if (j->dedupe_window_s == 0)
		return true;
	hash = hash_of(r);
	s = find(j, r, hash, now_ms);
	if (s == NULL && strcmp(r->event, "dns") == 0 &&
	    !take_token(&j->dns_parts, &j->dns_at_ms, now_ms, j->dns.denied_qps, j->dns.denied_qps * UINT64_C(1000), 1000)) {
		r->reason = "dns_rate";
		r->rule = NULL;
		r->asked = NULL;
		r->asked_n = 0;
		hash = hash_of(r);
		s = find(j, r, hash, now_ms);
	}
	if (s != NULL && !r->alert) {
		s->suppressed++;
		return false;
	}
	if (s == NULL && (s = place(j)) != NULL)
		keep(s, r, hash, now_ms);
	return true;
}

bool judge_unwritten(struct judge *j, const struct judge_record *r)
{
	uint64_t hash = hash_of(r);

	for (uint32_t i = 0; i < j->seen_n; i++)
		if (j->seen[i].hash == hash && same(&j->seen[i], r)) {
			j->seen[i].suppressed += MAX(r->suppressed, (uint64_t)1);
			j->seen[i].waits = true;
			j->seen[i].r.alert |= r->alert;
			return true;
		}
	return false;
}

bool judge_repeats(struct judge *j, uint64_t now_ms, bool all, struct judge_record *r)
{
	for (uint32_t i = 0; i < j->seen_n; i++) {
		struct seen *s = &j->seen[i];

		if (s->suppressed == 0 ||
		    (!all && !s->waits && now_ms - s->at_ms < (uint64_t)j->dedupe_window_s * 1000))
			continue;
		*r = s->r;
		r->suppressed = s->suppressed;
		s->suppressed = 0;
		s->waits = s->r.alert = false;
		return true;
	}
	return false;
}

uint64_t judge_denied(const struct judge *j) { return j->denied; }
