/*
 * Requests that wait for a sandbox are suspended in MHD, which then does not look at their sockets: we do, for the client's end.
 * MHD gives up the process when it is stopped while one still is, so they are in a list.
 */
#include "api/server_priv.h"

#include <sys/epoll.h>

static void client_ready(struct source *s, uint32_t events)
{
	struct request *q = (struct request *)s;
	uint32_t end = EPOLLHUP | EPOLLERR | (q->whole ? (uint32_t)EPOLLRDHUP : 0);

	if ((events & end) == 0)
		return;
	q->gone = true;
	request_wake(q);
}

void request_unwatch(struct request *q)
{
	if (q->watched)
		loop_unwatch(&q->d->loop, &q->client);
	q->watched = false;
	q->client.fd = -1;
}

void request_suspend(struct request *q)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(q->conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (i != NULL && !q->watched) {
		q->client = (struct source){.ready = client_ready, .fd = i->connect_fd};
		q->watched = loop_watch_for(&q->d->loop, &q->client, EPOLLRDHUP | EPOLLET) == 0;
	}
	q->suspended = true;
	q->next = q->api->suspended;
	if (q->next != NULL)
		q->next->at = &q->next;
	q->at = &q->api->suspended;
	q->api->suspended = q;
	MHD_suspend_connection(q->conn);
}

bool request_unlist(struct request *q)
{
	bool ret = q->suspended;

	if (ret) {
		*q->at = q->next;
		if (q->next != NULL)
			q->next->at = q->at;
	}
	q->suspended = false;
	return ret;
}

void request_wake(struct request *q)
{
	if (request_unlist(q))
		MHD_resume_connection(q->conn);
}

void request_wake_all(struct api *a)
{
	while (a->suspended != NULL) {
		a->suspended->gone = true;
		request_wake(a->suspended);
	}
}
