/*
 * Preloaded into user-mode Linux 6.1 on processors with AMX. Its buffer for extended registers is
 * smaller than theirs, and ptrace sets all of them or none. Here the guest kernel sees as much as
 * its buffer holds; what is beyond (tiles, which the guest does not use) stays as it is.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char all[64 << 10]; /* the tracer is one thread */

long ptrace(enum __ptrace_request req, ...)
{
	va_list args;
	va_start(args, req);
	long pid = va_arg(args, int), addr = va_arg(args, long), data = va_arg(args, long);
	va_end(args);
	if ((req == PTRACE_GETREGSET || req == PTRACE_SETREGSET) && addr == NT_X86_XSTATE) {
		struct iovec *part = (struct iovec *)data;
		struct iovec whole = {all, sizeof all};
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, addr, &whole) < 0)
			return -1;
		size_t n = part->iov_len < whole.iov_len ? part->iov_len : whole.iov_len;
		if (req == PTRACE_GETREGSET) {
			memcpy(part->iov_base, all, n);
			part->iov_len = n;
			return 0;
		}
		memcpy(all, part->iov_base, n);
		return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, addr, &whole);
	}
	if (req == PTRACE_PEEKTEXT || req == PTRACE_PEEKDATA || req == PTRACE_PEEKUSER) {
		long word; /* the system call stores it, the library returns it */
		if (syscall(SYS_ptrace, req, pid, addr, &word) < 0)
			return -1;
		errno = 0;
		return word;
	}
	return syscall(SYS_ptrace, req, pid, addr, data);
}
