// SPDX-License-Identifier: Apache-2.0
// NEON's intrinsics: the compiler's on aarch64, SIMDe's portable ones elsewhere (-DED_SIMDE), for tests only.
#ifndef ED_NEON_H
#define ED_NEON_H

#ifdef ED_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>
#else
#include <arm_neon.h>
#endif

#endif
