/* Where dispatchers, the loader and the end of the program come in. First and last of the constructors and destructors
 * that a program may number. */

#if defined(MAVCG_LOADED_SELECTOR)
#define select_in mavcg_rt_select
#define start_set mavcg_rt_start
#define finish_set mavcg_rt_finish
#endif

MAVCG_SHARED void *MAVCG_NAME(select, MAVCG_SET)(struct mavcg_function *function) {
    return select_in(&core_set, function);
}

__attribute__((constructor(101))) static void start(void) { start_set(&core_set); }

__attribute__((destructor(101))) static void finish(void) { finish_set(&core_set); }
