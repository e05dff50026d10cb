/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libibv_sa: functions of its own. All functions of libibverbs come with <infiniband/verbs.h>.
 * Made by cbindgen; do not edit.
 */

#ifndef INFINIBAND_IBV_SA_H
#define INFINIBAND_IBV_SA_H

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, for example "0.1.0".
 *
 * Returns a string that belongs to the library and lives as long as the process. Never fails.
 */
const char *ibv_sa_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* INFINIBAND_IBV_SA_H */
