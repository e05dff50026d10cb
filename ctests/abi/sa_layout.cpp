// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The same in C++.

#include "sa_layout.c"
