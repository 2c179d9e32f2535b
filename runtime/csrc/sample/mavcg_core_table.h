/* Core set be73d3589db3a5ad: cortex-a55, cortex-a75. Made by mavcg. */
#define MAVCG_SET be73d3589db3a5ad
#define MAVCG_VERSIONS 4
static const struct mavcg_midr_rule midr_rules[] = {
    {0x41, 0, 15, 2, 0xd05}, /* cortex-a55 */
    {0x41, 0, 15, 3, 0xd0a}, /* cortex-a75 */
    {0, 0, 0, 0, 0},
};
static const struct mavcg_x86_rule x86_rules[] = {
    {0, 0, 0, 0, 0, 0},
};
static const uint32_t needs[][MAVCG_NEED_WORDS] = {
    {0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000}, /* cortex-a55 */
    {0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000}, /* cortex-a75 */
};
static const char core_names[] =
    "\001" "generic" "\000"
    "\002" "cortex-a55" "\000"
    "\003" "cortex-a75" "\000"
;
