"""Templates of the functions in exported C code.

Every result of arithmetic is converted explicitly to the type in which it is stored: integers narrower than int are
promoted, and with the flag -Wconversion compilers warn of each implicit conversion back.
"""

from string import Template

FILE = Template("""\
${head}
#include "${name}.h"

/* Where tables live: some machines have a keyword for it. */
#ifndef QSDP_TABLE
#define QSDP_TABLE static const
#endif

${tables}
${functions}""")

BIT = Template("""\
static uint8_t bit(${position} at)
{
    return (uint8_t)(packed[at >> 3] >> (7 - (at & 7)) & 1);
}
""")

#: Read a number of several bits at a position, through one window of bytes.
NUMBER = Template("""\
static ${number} number(${position} at)
{
    ${number} window = 0;
    uint8_t i;

    for (i = 0; i < ${n_bytes}; i++) {
        window = (${number})(window << 8 | packed[(at >> 3) + i]);
    }
    return (${number})((${number})(window >> (${spare} - (at & 7))) & ${mask});
}
""")

#: Project on consecutive weights of one bit each, shifted out of a byte, the most significant bit first.
PROJECT_BITS = Template("""\
static ${projection} project(const ${x} *x, ${position} at)
{
    ${sum} sum = 0;
    uint_fast8_t byte = (uint_fast8_t)(packed[at >> 3] << (at & 7));
    ${counter} i;

    for (i = 0; i < ${n_inputs}; i++) {
        const ${sum} value = x[i];

        sum = (${sum})(byte & 128 ? sum + value : sum - value);
        byte = (uint_fast8_t)(byte << 1);
        if ((++at & 7) == 0) {
            byte = packed[at >> 3];
        }
    }
    return (${projection})(${result});
}
""")

PROJECT = Template("""\
static ${projection} project(const ${x} *x, ${position} at)
{
    ${projection} sum = 0;
    ${counter} i;

    for (i = 0; i < ${n_inputs}; i++) {
        const ${projection} value = x[i];

        sum = (${projection})(sum + ${weight} * value);${step}
    }
    return (${projection})(${result});
}
""")

#: Evaluate neurons that share second-layer weights, output by output.
GROUPED = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${position} at = 0;
    ${counter} j;
    ${output_counter} k;

    for (k = 0; k < ${C}; k++) {
        ${total} sum = 0;

        for (j = 0; j < ${size}; j++, at = (${position})(at + ${stride})) {
            const ${projection} left = project(x, at);

            sum = (${total})(sum + ${product});
        }
        output[k] = (${total})(${result});
    }
}
""")

#: Evaluate neurons with second-layer weights of their own.
FREE = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${position} at = 0;
    ${counter} j;
    ${output_counter} k;
    ${weight_counter} weight = 0;

    for (k = 0; k < ${C}; k++) {
        output[k] = ${bias};
    }
    for (j = 0; j < ${m}; j++, at = (${position})(at + ${stride})) {
        const ${projection} left = project(x, at);
        const ${total} product = (${total})(${product});

        for (k = 0; k < ${C}; k++, weight++) {
            output[k] = (${total})(output[k] + product * ${alpha});
        }
    }
}
""")

FORM = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${projection} z[${size}];
    ${position} at = 0;
    ${counter} i, l;
    ${output_counter} k;

    for (i = 0; i < ${n_inputs}; i++) {
        z[i] = (${projection})(${scaled});
    }
${last}\
    for (k = 0; k < ${C}; k++) {
        ${total} sum = 0;

        for (i = 0; i < ${size}; i++) {
            const ${total} diagonal = (${total})((${entry}) * z[i]);
            ${total} row = 0;

            at = (${position})(at + ${step});
            for (l = (${counter})(i + 1); l < ${size}; l++) {
                row = (${total})(row + (${entry}) * z[l]);
                at = (${position})(at + ${step});
            }
            sum = (${total})(sum + (2 * row + diagonal) * z[i]);
        }
        output[k] = (${total})(${result});
    }
}
""")

#: Round an entry times its scale as `fixed_columns` does, in the header; nothing outside the type is converted to it.
ROUND = Template("""\
/* Nearest integer, halves away from zero; nan becomes ${upper}_MISSING, larger magnitudes are clipped. */
static inline ${column} ${name}_round(double value)
{
    ${column} whole;
    double rest;

    if (!(value >= -${most}.0)) {
        return value < 0.0 ? -${most} : ${upper}_MISSING;
    }
    if (value >= ${most}.0) {
        return ${most};
    }
    whole = (${column})value;
    rest = value - (double)whole;
    return (${column})(rest >= 0.5 ? whole + 1 : rest <= -0.5 ? whole - 1 : whole);
}
""")

FILLED = Template("""\
static ${column} filled(const ${column} *column, ${counter} i)
{
    return (${column})(column[i] == ${missing} ? ${fill} : column[i]);
}
""")

ENCODE = Template("""\
static void encode(const ${column} *column, ${x} *x)
{
${declared}${body}}
""")

#: Encode numbers and thresholds.
COLUMNS = Template("""\
    for (i = 0; i < ${n}; i++) {
        const ${column} value = ${read};

${body}    }
""")

REPEATED = Template("""\
for (j = 0; j < ${count}; j++, ${at}++) {
${body}}
""")

SCALED = Template("""\
const ${column} least = ${low};
${unsigned} part = (${unsigned})(value < least ? 0 : (u${column})((u${column})value - (u${column})least));

${before}\
part = (${unsigned})(((uint32_t)part * ${slope} + ((uint32_t)1 << ${shift} >> 1)) >> ${shift});
${after}\
*x++ = (${x})((${signed})part + ${start});
""")

CUT = Template("""\
if (part > ${most}) {
    part = ${most};
}
""")

ABOVE = Template("""\
*x++ = (${x})(value > ${value} ? ${on} : ${off});
""")

#: Encode codes of categories and missing entries.
CODES = Template("""\
    for (i = 0; i < ${n}; i++) {
        *x++ = (${x})(column[${place}] == ${value} ? ${on} : ${off});
    }
""")

OUTPUTS = Template("""\
${declared}
{
    ${x} x[${n_inputs}];

    encode(column, x);
    evaluate(x, output);
}
""")

DECISIONS = {
    "sign": Template("""\
${declared}
{
    ${total} output[1];

    ${name}_outputs(column, output);
    return (${class_type})(output[0] > 0);
}
"""),
    "argmax": Template("""\
${declared}
{
    ${total} output[${C}];
    ${output_counter} k, best = 0;

    ${name}_outputs(column, output);
    for (k = 1; k < ${C}; k++) {
        if (output[k] > output[best]) {
            best = k;
        }
    }
    return (${class_type})best;
}
"""),
    "labels": Template("""\
${declared}
{
    ${total} output[${C}];
    ${output_counter} k;

    ${name}_outputs(column, output);
    for (k = 0; k < ${C}; k++) {
        label[k] = (uint8_t)(output[k] > 0);
    }
}
"""),
}
