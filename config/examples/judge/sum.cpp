// Prints the sum of 1 to n. It is wrong where the sum is no int, and slow where n is large.
#include <cstdio>

int main()
{
    long n;
    int sum = 0;
    if (scanf("%ld", &n) == 1) {
        for (long i = 1; i <= n; i++) {
            sum += i;
        }
    }
    printf("%d\n", sum);
}
