/*
 * Requests whose first bytes for a keeper wait until the library has given us what it has of them: each write wakes the keeper,
 * which then takes the processor from us.
 */
#include "api/server_priv.h"

#include "daemon/ask.h"

void begun_add(struct request *q)
{
	begun_drop(q);
	q->ask->corked = true;
	q->next_begun = q->api->begun;
	if (q->next_begun != NULL)
		q->next_begun->at_begun = &q->next_begun;
	q->at_begun = &q->api->begun;
	q->api->begun = q;
}

void begun_drop(struct request *q)
{
	if (q->at_begun == NULL)
		return;
	*q->at_begun = q->next_begun;
	if (q->next_begun != NULL)
		q->next_begun->at_begun = q->at_begun;
	q->at_begun = NULL;
}

void begun_send(struct api *a)
{
	while (a->begun != NULL) {
		struct request *q = a->begun;

		begun_drop(q);
		if (q->ask != NULL)
			ask_uncork(q->ask);
	}
}
