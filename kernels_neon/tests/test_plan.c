// SPDX-License-Identifier: Apache-2.0
// The reader of plan.edp on the golden file of the planner, on that file damaged, and on mutants with a right checksum.
//   test_plan                      the golden file, all damages of a byte, 20,000 mutants
//   test_plan fuzz COUNT [SEED]    so many mutants
//   test_plan parse FILE...        for each file a line: "ok", or why it is refused
#include <string.h>

#include "../src/delegate/crc32.h"
#include "../src/delegate/plan.h"
#include "check.h"
#include "random.h"

#define GOLDEN "../tests/partitioner/golden/hand.edp"

static char error[512];

typedef struct {
  uint8_t *bytes;
  size_t size;
} file;

static file read_file(const char *path) {
  FILE *stream = fopen(path, "rb");
  CHECK(stream);
  CHECK(!fseek(stream, 0, SEEK_END));
  file f = {NULL, (size_t)ftell(stream)};
  rewind(stream);
  f.bytes = malloc(f.size + 1);
  CHECK(f.bytes && fread(f.bytes, 1, f.size, stream) == f.size);
  fclose(stream);
  return f;
}

// Parses a copy of just these bytes, so that a sanitizer sees every step past them, and follows every reference.
static bool parses(const uint8_t *bytes, size_t size) {
  void *copy = malloc(size ? size : 1);
  CHECK(copy);
  memcpy(copy, bytes, size);
  ed_plan plan;
  *error = 0;
  bool good = ed_plan_parse(&plan, copy, size, error, sizeof error);
  CHECK(good == !*error);
  size_t letters = 0, ops = 0;
  for (uint32_t i = 0; good && i < plan.partitions_count; i++) {
    uint32_t first, count = ed_plan_ops(&plan, i, &first);
    CHECK(count && !ed_is_folded(&plan.ops[first + count - 1]));
    letters += strlen(ed_plan_text(&plan, plan.partitions[i].delegate));
    letters += strlen(ed_plan_text(&plan, plan.backends[ed_plan_backend_of(&plan, i)].name));
    for (uint32_t k = first; k < first + count; k++) {
      const ed_plan_op *op = &plan.ops[k];
      if (ed_is_folded(op)) continue;
      letters += strlen(ed_plan_text(&plan, op->kernel)) + strlen(ed_plan_text(&plan, op->layout));
      if (op->variant != ED_NONE) letters += strlen(ed_plan_text(&plan, op->variant));
    }
    ops += count;
  }
  CHECK(!good || ops == plan.ops_count);
  if (good) ed_plan_switches_xnnpack(&plan);
  for (uint32_t i = 0; good && i < plan.options_count; i++)
    letters += strlen(ed_plan_text(&plan, plan.options[i].key)) + strlen(ed_plan_text(&plan, plan.options[i].value));
  free(copy);
  return good && letters < SIZE_MAX;
}

static void sign(uint8_t *bytes, size_t size) {
  uint32_t length = (uint32_t)size, crc;
  if (size < 48) return;
  memcpy(bytes + 12, &length, sizeof length);
  crc = ed_crc32(bytes, size - 4);
  memcpy(bytes + size - 4, &crc, sizeof crc);
}

static void read_golden(const file *golden) {
  CHECK(parses(golden->bytes, golden->size));
  ed_plan plan;
  CHECK(ed_plan_read(&plan, GOLDEN, error, sizeof error));
  CHECK(plan.subgraphs_count && plan.partitions_count && plan.ops_count);
  ed_plan_free(&plan);
  CHECK(!ed_plan_read(&plan, "no-such-file", error, sizeof error));
  CHECK(!strcmp(error, "plan=no-such-file: No such file or directory"));
  CHECK(!ed_plan_read(&plan, "/", error, sizeof error));
}

// No single byte can be another one, and no byte can be missing.
static void damage(const file *golden) {
  for (size_t i = 0; i < golden->size; i++) {
    uint8_t was = golden->bytes[i];
    for (int value = 0; value < 256; value++) {
      golden->bytes[i] = (uint8_t)value;
      CHECK(parses(golden->bytes, golden->size) == (value == was));
    }
    golden->bytes[i] = was;
    CHECK(!parses(golden->bytes, i));
  }
}

static uint32_t interesting(uint64_t *random) {
  static const uint32_t values[] = {
      0, 1, 2, 3, 8, UINT32_MAX, UINT32_MAX - 1, INT32_MAX, INT32_MAX + 1u, 0x10000000, 0x08000000};
  uint32_t chosen = below(random, 20);
  return chosen < sizeof values / sizeof *values ? values[chosen] : below(random, 64);
}

static size_t fuzz(const file *golden, size_t count, uint64_t seed) {
  size_t accepted = 0, room = golden->size + 64;
  uint8_t *mutant = malloc(room);
  CHECK(mutant);
  for (size_t n = 0; n < count; n++) {
    uint64_t random = seed + n * 1000003;
    size_t size = golden->size;
    memset(mutant, 0, room);
    memcpy(mutant, golden->bytes, size);
    if (!below(&random, 8)) size = below(&random, (uint32_t)room);
    for (uint32_t edits = 1 + below(&random, 3); edits; edits--) {
      if (below(&random, 2)) {
        uint32_t value = interesting(&random);
        size_t at = 4 * (size_t)below(&random, (uint32_t)golden->size / 4);
        memcpy(mutant + at, &value, sizeof value);
      } else {
        mutant[below(&random, (uint32_t)golden->size)] ^= (uint8_t)(1u << below(&random, 8));
      }
    }
    sign(mutant, size);
    accepted += parses(mutant, size);
  }
  free(mutant);
  return accepted;
}

int main(int count, char **arguments) {
  if (count > 2 && !strcmp(arguments[1], "parse")) {
    for (int i = 2; i < count; i++) {
      ed_plan plan;
      puts(ed_plan_read(&plan, arguments[i], error, sizeof error) ? "ok" : error);
      ed_plan_free(&plan);
    }
    return 0;
  }
  file golden = read_file(GOLDEN);
  if (count > 2 && !strcmp(arguments[1], "fuzz")) {
    size_t mutants = strtoul(arguments[2], NULL, 10);
    size_t accepted = fuzz(&golden, mutants, count > 3 ? strtoul(arguments[3], NULL, 10) : 0);
    printf("test_plan: %zu mutants, %zu of them plans\n", mutants, accepted);
  } else {
    read_golden(&golden);
    damage(&golden);
    size_t accepted = fuzz(&golden, 20000, 0);
    CHECK(accepted > 20);  // some fields are free: the mutants get past the checksum
    printf("test_plan: %zu bytes damaged in all ways, 20000 mutants, %zu of them plans\n", golden.size, accepted);
  }
  free(golden.bytes);
}
