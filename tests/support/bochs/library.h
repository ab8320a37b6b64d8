/* In place of builder/verify/library.h: the model is linked into the program. */
#ifndef COLDFORGE_LIBRARY_H
#define COLDFORGE_LIBRARY_H

#include "model.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXIT_REFUSED = 3 };

static void load_library(const char *path) { (void)path; }

#define CALL(name) name

#endif
