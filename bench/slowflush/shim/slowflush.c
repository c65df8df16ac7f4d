/*
 * Makes a fast disk slow: waits SLOWFLUSH_US microseconds after each flush that
 * PostgreSQL asks for, as a network volume would. Loaded by LD_PRELOAD into the
 * benchmark's private server and into nothing else.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void
slow_down(void)
{
	static long delay_us = -1;
	struct timespec delay;

	if (delay_us < 0) {
		const char *text = getenv("SLOWFLUSH_US");
		delay_us = text ? atol(text) : 0;
	}
	delay.tv_sec = delay_us / 1000000;
	delay.tv_nsec = delay_us % 1000000 * 1000;
	nanosleep(&delay, NULL);
}

int
fdatasync(int fd)
{
	static int (*real)(int);
	int result;

	if (!real)
		real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
	result = real(fd);
	slow_down();
	return result;
}

int
fsync(int fd)
{
	static int (*real)(int);
	int result;

	if (!real)
		real = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
	result = real(fd);
	slow_down();
	return result;
}
