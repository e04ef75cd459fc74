/* Start of a Cortex-M3 of QEMU's mps2-an385, and a main that times and prints the classes of some rows. */
#include <stdint.h>
#include "rows.h"

extern uint32_t stack_top, data_load, data_start, data_end, bss_start, bss_end;
int main(void);

static void reset(void)
{
    uint32_t *from = &data_load, *to;

    for (to = &data_start; to < &data_end;) {
        *to++ = *from++;
    }
    for (to = &bss_start; to < &bss_end;) {
        *to++ = 0;
    }
    main();
}

__attribute__((section(".vectors"), used)) static void *const vectors[] = {&stack_top, (void *)reset};

static void host(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(uint32_t value)
{
    char text[12];
    int n = 11;

    text[n] = 0;
    text[--n] = '\n';
    do {
        text[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    host(4, text + n);
}

int main(void)
{
    volatile uint32_t *timer = (uint32_t *)0xE000E010;
    int classes[ROWS], i, again;

    timer[1] = 0xFFFFFF;
    timer[2] = 0;
    timer[0] = 5;
    uint32_t start = timer[2];
    for (again = 0; again < REPEATS; again++) {
        for (i = 0; i < ROWS; i++) {
            classes[i] = PREDICT(rows[i]);
        }
    }
    print((start - timer[2]) & 0xFFFFFF);
    for (i = 0; i < ROWS; i++) {
        print((uint32_t)classes[i]);
    }
    host(0x18, (void *)0x20026);
    return 0;
}
