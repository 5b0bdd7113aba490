// A library that is loaded before others (LD_PRELOAD) and makes CUDA fail, for faults.sh.
//
//     FAULT_LIBRARY=libnvrtc        no library of this name can be loaded
//     FAULT_MISSING=cuGraphLaunch   the driver has no such function, as an older one
//     FAULT_FUNCTION=cuGraphLaunch  this function of the driver (of at most six arguments) fails,
//     FAULT_AFTER=100               after so many calls,
//     FAULT_CODE=214                with this code of the driver's: 2 is too little memory, 214 an ECC error, 719 a failed launch
//     FAULT_FREE=300                cuMemGetInfo says that so many MiB are free
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef long (*any_function)(long, long, long, long, long, long);
typedef void* (*dlsym_function)(void*, const char*);
typedef void* (*dlopen_function)(const char*, int);

static dlsym_function real_dlsym(void) {
    static dlsym_function found;
    if (!found) found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!found) found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return found;
}

void* dlopen(const char* name, int flags) {
    static dlopen_function found;
    if (!found) found = (dlopen_function)real_dlsym()(RTLD_NEXT, "dlopen");
    const char* hidden = getenv("FAULT_LIBRARY");
    if (hidden && name && strstr(name, hidden)) return found("this library is hidden", flags);
    return found(name, flags);
}

static any_function failing, free_memory;
static long calls;

static long fails(long a, long b, long c, long d, long e, long f) {
    const char *after = getenv("FAULT_AFTER"), *code = getenv("FAULT_CODE");
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) > (after ? atol(after) : 0)) return code ? atol(code) : 214;
    return failing(a, b, c, d, e, f);
}

static long little_free(long* free_bytes, long* total, long c, long d, long e, long f) {
    long answer = free_memory((long)free_bytes, (long)total, c, d, e, f);
    *free_bytes = atol(getenv("FAULT_FREE")) << 20;
    return answer;
}

void* dlsym(void* library, const char* name) {
    const char *missing = getenv("FAULT_MISSING"), *function = getenv("FAULT_FUNCTION");
    if (missing && !strcmp(name, missing)) return real_dlsym()(library, "there is no such function");
    void* found = real_dlsym()(library, name);
    if (found && function && !strcmp(name, function)) {
        failing = (any_function)found;
        return (void*)fails;
    }
    if (found && getenv("FAULT_FREE") && !strcmp(name, "cuMemGetInfo_v2")) {
        free_memory = (any_function)found;
        return (void*)little_free;
    }
    return found;
}
