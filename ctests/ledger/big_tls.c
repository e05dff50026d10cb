// SPDX-License-Identifier: MIT OR Apache-2.0
//
// big_tls ...: as `late`, in a program with much thread-local storage (OpenMP's threadprivate, Fortran's common
// blocks). It is taken from each thread's stack.

static __thread char storage[4 << 20] __attribute__((used));

#include "late.c"
