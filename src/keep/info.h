#pragma once
/* Figures of the sandbox, asked of runner and agent (info.c). */
struct keep;

/* Take one for the ring: samples_take is called, at once or later. */
void info_sample(struct keep *k);
/* One that is being taken is given up. */
void info_stop(struct keep *k);
