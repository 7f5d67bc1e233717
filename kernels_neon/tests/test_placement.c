// SPDX-License-Identifier: Apache-2.0
// Blocks that are alive at once do not overlap, and the buffer is no larger than all of them and no smaller than what
// is alive. That it is as large as the planner says is tested with the planner.
#include "../src/delegate/placement.h"
#include "check.h"
#include "random.h"

static size_t up(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

int main(void) {
  enum { MOST = 40, CASES = 20000 };
  uint64_t random = 7;
  for (int n = 0; n < CASES; n++) {
    ed_block blocks[MOST];
    size_t count = below(&random, MOST), sum = 0, bytes;
    for (size_t i = 0; i < count; i++) {
      size_t first = below(&random, 20);
      blocks[i] = (ed_block){(int)i, below(&random, 3) ? below(&random, 500) : 64, first, first + below(&random, 6), 0};
      sum += up(blocks[i].bytes);
    }
    CHECK(ed_place(blocks, count, &bytes));
    CHECK(bytes <= sum);
    for (size_t at = 0; at < 26; at++) {
      size_t alive = 0;
      for (size_t i = 0; i < count; i++) alive += blocks[i].first <= at && at <= blocks[i].last ? blocks[i].bytes : 0;
      CHECK(alive <= bytes);
    }
    for (size_t i = 0; i < count; i++) {
      CHECK(blocks[i].offset % 64 == 0 && blocks[i].offset + blocks[i].bytes <= bytes);
      for (size_t k = 0; k < i; k++) {
        bool together = blocks[i].first <= blocks[k].last && blocks[k].first <= blocks[i].last;
        bool apart = blocks[i].offset + blocks[i].bytes <= blocks[k].offset ||
                     blocks[k].offset + blocks[k].bytes <= blocks[i].offset || !blocks[i].bytes || !blocks[k].bytes;
        CHECK(!together || apart);
      }
    }
  }
  printf("test_placement: %d random lists of blocks\n", CASES);
}
