/* Core set 2eb1f0b8fb62b090: cortex-a55, cortex-a75. Made by mavcg. */
#define MAVCG_SET 2eb1f0b8fb62b090
#define MAVCG_VERSIONS 4
static const struct mavcg_midr_rule midr_rules[] = {
    {0x41, 0, 15, 2, 0xd05, 0x0}, /* cortex-a55 */
    {0x41, 0, 15, 3, 0xd0a, 0x0}, /* cortex-a75 */
    {0, 0, 0, 0, 0, 0},
};
static const struct mavcg_x86_rule x86_rules[] = {
    {0, 0, 0, 0, 0, 0},
};
static const uint32_t x86_needs[][X86_WORDS] = {
    {0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000}, /* cortex-a55 */
    {0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000}, /* cortex-a75 */
    {0},
};
static const char core_names[] =
    "\001" "generic" "\000"
    "\002" "cortex-a55" "\000"
    "\003" "cortex-a75" "\000"
;
