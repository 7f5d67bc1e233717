// SPDX-License-Identifier: Apache-2.0
// A plugin for QEMU's emulation of one program: counts the instructions that the guest executes between marks. A mark
// is a call of getppid, which nobody else makes. Each mark writes the count so far to the file that `out=` names.
//
// No package has QEMU's header for plugins; what is needed of it is declared here (version 1 of the interface, QEMU 4.2
// to 8.2).
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef struct {
  const char *target_name;
  struct {
    int min, cur;
  } version;
} qemu_info_t;
typedef void (*on_translation)(qemu_plugin_id_t id, struct qemu_plugin_tb *block);
typedef void (*on_syscall)(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                           uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, on_translation call);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, on_syscall call);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, enum qemu_plugin_op op, void *at,
                                              uint64_t value);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count, char **words);

enum { GETPPID = 173 };  // on aarch64
static uint64_t executed;
static FILE *out;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  uint64_t instructions = qemu_plugin_tb_n_insns(block);
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &executed, instructions);
}

static void called(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                   uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)cpu, (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != GETPPID) return;
  fprintf(out, "%llu\n", (unsigned long long)executed);
  fflush(out);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count, char **words) {
  if (strcmp(info->target_name, "aarch64")) return 1;
  for (int i = 0; i < count; i++) {
    if (!strncmp(words[i], "out=", 4)) out = fopen(words[i] + 4, "w");
  }
  if (!out) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
