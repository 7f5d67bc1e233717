// SPDX-License-Identifier: Apache-2.0
// LOG_SOFTMAX of 8-bit rows, as the built-in kernel for aarch64 computes it (`optimized_ops.h`): exponentials in single
// precision from a table, added one by one; then x * scale less what the row's greatest and the logarithm of the sum
// make together, both products fused with what follows.
//
// Trap: on x86-64 the same runtime rounds these products, and its results differ by 1 now and then.
#ifndef ED_LOG_SOFTMAX_H
#define ED_LOG_SOFTMAX_H

#include "kernel.h"

enum {
  ED_LOG_MOST = 2048,  // elements of a row that sums of bytes are used for; with more, hardly one is near enough
  ED_LOG_BUCKETS = 4096,
  ED_LOG_UNKNOWN = 256,
  ED_LOG_DONE = 1 << 16,
};

// The state of a job; its units are rows. Tables are looked up by how far a value is below its row's greatest.
//
// A result is zero_point less the nearest of scale * below + 16 * logarithm. With whole and fraction as the parts of
// scale * below, and those of 16 * logarithm + 0.5, that is the sum of the whole parts, and one more where the
// fractions make 1. So what counts of a logarithm is its whole part and how many of the sorted fractions stay below 1
// with it: most sums need not be known to the last bit.
typedef struct {
  size_t row;
  int32_t zero_point;
  bool is_unsigned;
  float from_scale, scale;  // of the input; 16 times, as the output is of 1/16
  float exponential[384];   // backwards, that of 0 at 255; what is behind is there for pointers
  // By quarters of a table: the bytes of the exponentials, of which 1 is 0xffffff; 255 less the whole part, 0 from
  // there on; which of the fractions it has.
  uint8_t fixed[4][3][64], parts[4][2][64];
  int quarters, high_quarters;  // that are not all 0, and of the high bytes
  int fractions_count;
  float fractions[257];  // sorted, ended by 1
  uint8_t below[256];    // whose they are
  // How far from each fraction the threshold of a sum has to be: of one as the stock kernel adds it, and of one of
  // bytes.
  float exact, near;
  uint16_t buckets[ED_LOG_BUCKETS + 1];  // the last fraction below all thresholds there, or ED_LOG_UNKNOWN
} ed_log_softmax;

bool ed_log_softmax_prepare(const ed_op *op, ed_job *job, char *reason, size_t reason_bytes);

// How a row ends for sure: what to take from all its results, and 256 times the number of the last fraction for which
// that is all; of later ones it is one more. That follows from `halves`, 16 logarithms and a half, with an error that
// `near` allows for; of long rows and in doubt from the exact sum, and in doubt again from what the stock kernel makes
// of the values in doubt. If that is no such end, the results are computed one by one, and it is ED_LOG_DONE.
// `greatest` is compared as a byte.
uint32_t ed_log_softmax_settle(const ed_log_softmax *state, const uint8_t *from, uint8_t *to, uint8_t greatest,
                               float halves);

#endif
