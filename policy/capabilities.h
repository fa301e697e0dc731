/* What is dangerous about some capabilities. */
#pragma once

/* What a program could do to the jail itself if it kept this capability; NULL: nothing that is known. */
const char *capability_danger(int number);
