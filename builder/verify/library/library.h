/* libmodel.so, loaded while a program runs, and its functions by name. For programs of one file. */
#ifndef COLDFORGE_LIBRARY_H
#define COLDFORGE_LIBRARY_H

#include "model.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_REFUSED = 3 }; /* the library cannot be used at all; builder/verify/library/remote_library.py knows the number */

static void *library;

static void load_library(const char *path) {
    library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) {
        const char *why = path != NULL ? dlerror() : "it has no name";
        fprintf(stderr, "it cannot be loaded: %s\n", why);
        exit(EXIT_REFUSED);
    }
}

static void *function(const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "it does not export %s\n", name);
        exit(EXIT_REFUSED);
    }
    return found;
}

/* The library's function of this name, with the type that model.h gives it. */
#define CALL(name) ((__typeof__(&name))function(#name))

#endif
