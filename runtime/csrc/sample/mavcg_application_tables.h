/* Application sample_app. Made by mavcg. */
#define APPLICATION_API "mavcg_app_sample_app"
#define APPLICATION_NAME "sample_app"
enum { NETWORKS = 1 };
#define APPLICATION_ARENA_BYTES 4096ull
#define APPLICATION_SCRATCH_BYTES 128ull
extern const struct application_network network_0 __asm__("mavcg_network_sample_entry") __attribute__((visibility("hidden")));
extern const mavcg_model_table model_0 __asm__("mavcg_network_sample") __attribute__((visibility("hidden")));
static const struct application_network *const network_table[NETWORKS] = {
    &network_0,
};
static const mavcg_app_network placed_networks[NETWORKS] = {
    {&model_0, 0ull, 0x1, 0},
};
static const uint64_t scratch_offsets[NETWORKS] = {
    0ull,
};
