/* The part of qemu-plugin.h that the plugin uses, API version 1; Debian ships no header. */
#ifndef MAVCG_QEMU_API_H
#define MAVCG_QEMU_API_H
#include <stddef.h>
#include <stdint.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { CB_NO_REGS = 0, MEM_READ_WRITE = 3 };

extern void qemu_plugin_register_vcpu_init_cb(plugin_id, void (*)(plugin_id, unsigned));
extern void qemu_plugin_register_vcpu_exit_cb(plugin_id, void (*)(plugin_id, unsigned));
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, uint32_t, uint64_t, void *),
                                             int, int, void *);
extern void qemu_plugin_register_vcpu_syscall_cb(plugin_id,
                                                 void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t,
                                                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
extern void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id, void (*)(plugin_id, unsigned, int64_t, int64_t));
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
extern unsigned qemu_plugin_mem_size_shift(uint32_t);
extern _Bool qemu_plugin_mem_is_store(uint32_t);

#endif
