/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What must hold for a program to go on: otherwise it says what did not, and ends with 3.
 */
#ifndef REQUIRE_H
#define REQUIRE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #condition,  \
				strerror(errno));                                                  \
			exit(3);                                                                   \
		}                                                                                  \
	} while (0)

#endif
