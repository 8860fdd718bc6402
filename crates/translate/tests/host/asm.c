#include "host.h"
const struct host_case host_asm_cases[]={{0}};
