/* A main for an ATmega1284P that times and prints the classes of some rows. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <stdint.h>
#include "rows.h"

static volatile uint16_t high;

ISR(TIMER1_OVF_vect)
{
    high++;
}

static void put(char letter)
{
    while (!(UCSR0A & (1 << UDRE0))) {
    }
    UDR0 = letter;
}

static void print(uint32_t value)
{
    char text[12];
    int8_t n = 0;

    do {
        text[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (n) {
        put(text[--n]);
    }
    put('\n');
}

int main(void)
{
    int classes[ROWS];
    uint8_t i;

    UCSR0B = 1 << TXEN0;
    TIMSK1 = 1 << TOIE1;
    TCCR1B = 1 << CS10;
    sei();
    for (i = 0; i < ROWS; i++) {
        classes[i] = PREDICT(rows[i]);
    }
    cli();
    print(((uint32_t)high << 16) + TCNT1);
    for (i = 0; i < ROWS; i++) {
        print((uint32_t)classes[i]);
    }
    sleep_enable();
    sleep_cpu();
    return 0;
}
